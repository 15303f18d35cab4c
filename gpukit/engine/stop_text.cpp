#include "gpukit/engine/stop_text.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "gpukit/base/error.h"

namespace gpukit::engine {

TextSource text_source(const text::Tokenizer& tokenizer) {
  const auto stream = std::make_shared<text::TokenStream>(tokenizer);
  return {[stream](int32_t id) { return stream->push(id); }, [stream] { return stream->flush(); }};
}

StopText::StopText(TextSource source, std::vector<std::string> stops)
    : source_(std::move(source)), stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) throw ArgumentError("generate", "stop", "be strings with a character", "an empty one");
}

std::string StopText::push(int32_t token) {
  pending_ += source_.push(token);
  return show();
}

std::string StopText::flush() {
  if (stopped_) return {};
  pending_ += source_.flush();
  std::string shown = show();
  if (!stopped_) shown += std::exchange(pending_, {});
  return shown;
}

std::string StopText::show() {
  size_t end = std::string::npos, held = 0;
  for (const std::string& stop : stops_) {
    end = std::min(end, pending_.find(stop));
    for (size_t length = std::min(stop.size() - 1, pending_.size()); length > held; --length)
      if (pending_.ends_with(std::string_view(stop).substr(0, length))) held = length;
  }
  stopped_ = end != std::string::npos;
  std::string shown = pending_.substr(0, stopped_ ? end : pending_.size() - held);
  pending_.erase(0, stopped_ ? pending_.size() : shown.size());
  return shown;
}

}  // namespace gpukit::engine
