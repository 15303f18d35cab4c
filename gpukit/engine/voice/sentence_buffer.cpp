#include "gpukit/engine/voice/sentence_buffer.h"

#include <utility>

#include "gpukit/text/english/phonemizer.h"

namespace gpukit::voice {

std::vector<std::string> SentenceBuffer::extract_sentences() {
  std::vector<std::string> sentences = text::english::split_sentences(text_);
  if (sentences.size() < 2) return {};
  // The last one goes on, with the blanks that stand behind it.
  const size_t end = text_.find_last_not_of(" \t\r\n") + 1;
  text_ = std::move(sentences.back()) + text_.substr(end);
  sentences.pop_back();
  return sentences;
}

std::string SentenceBuffer::flush() {
  std::string rest;
  for (const std::string& sentence : text::english::split_sentences(std::exchange(text_, {})))
    rest += (rest.empty() ? "" : " ") + sentence;
  return rest;
}

}  // namespace gpukit::voice
