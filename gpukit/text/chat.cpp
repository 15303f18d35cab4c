#include "gpukit/text/chat.h"

#include <algorithm>

#include "gpukit/base/error.h"

namespace gpukit::text {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Roles with marks around each message.
std::string with_headers(std::span<const ChatMessage> messages, ChatFamily family, bool add_generation_prompt) {
  const bool llama3 = family == ChatFamily::llama3;
  const std::string_view open = llama3 ? "<|start_header_id|>" : "<|im_start|>";
  const std::string_view close = llama3 ? "<|end_header_id|>\n\n" : "\n";
  const std::string_view end = llama3 ? "<|eot_id|>" : "<|im_end|>\n";
  std::string out = llama3 ? "<|begin_of_text|>" : "";
  for (const ChatMessage& message : messages)
    out.append(open).append(message.role).append(close).append(message.content).append(end);
  if (add_generation_prompt) out.append(open).append("assistant").append(close);
  return out;
}

/// Instructions in brackets, answers behind them. The system's text is part of the first one.
std::string with_brackets(std::span<const ChatMessage> messages, ChatFamily family) {
  const bool llama2 = family == ChatFamily::llama2;
  std::string before;
  if (!messages.empty() && messages.front().role == "system") {
    before = llama2 ? "<<SYS>>\n" + messages.front().content + "\n<</SYS>>\n\n" : messages.front().content + "\n\n";
    messages = messages.subspan(1);
  }
  std::string out = llama2 ? "" : "<s>";
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view wanted = i % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != wanted)
      throw ArgumentError("format_chat_messages", "messages", "alternate user and assistant after one system message",
                          messages[i].role + " where " + std::string(wanted) + " was due");
    if (i % 2 == 0) {
      if (llama2) out += "<s>";
      out.append("[INST] ").append(before).append(messages[i].content).append(" [/INST]");
      before.clear();
    } else {
      out.append(" ").append(messages[i].content).append(llama2 ? " </s>" : "</s>");
    }
  }
  return out;
}

}  // namespace

ChatFamily chat_family(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  if (has(lower, "llama-3") || has(lower, "llama3")) return ChatFamily::llama3;
  if (has(lower, "llama-2") || has(lower, "llama2")) return ChatFamily::llama2;
  if (has(lower, "mistral") || has(lower, "mixtral")) return ChatFamily::mistral;
  return ChatFamily::chatml;
}

ChatFamily chat_family_of_template(std::string_view jinja) {
  if (has(jinja, "<|start_header_id|>")) return ChatFamily::llama3;
  if (has(jinja, "<<SYS>>")) return ChatFamily::llama2;
  if (has(jinja, "[INST]")) return ChatFamily::mistral;
  return ChatFamily::chatml;
}

std::string format_chat(std::span<const ChatMessage> messages, ChatFamily family, bool add_generation_prompt) {
  switch (family) {
    case ChatFamily::llama2:
    case ChatFamily::mistral: return with_brackets(messages, family);
    case ChatFamily::chatml:
    case ChatFamily::llama3: break;
  }
  return with_headers(messages, family, add_generation_prompt);
}

}  // namespace gpukit::text
