#include "gpukit/text/chat.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/python/bind.h"
#include "gpukit/text/thinking.h"

namespace gpukit {
namespace {

using namespace python;
using text::ChatMessage;
using text::ThinkingParser;

ChatMessage to_message(nb::handle value) {
  if (nb::isinstance<ChatMessage>(value)) return nb::cast<ChatMessage>(value);
  const char* op = "format_chat_messages";
  if (!nb::isinstance<nb::dict>(value) || !nb::cast<nb::dict>(value).contains("role") ||
      !nb::cast<nb::dict>(value).contains("content"))
    throw nb::type_error("format_chat_messages: messages must be ChatMessage, or dict of role and content");
  return {.role = to_text(op, "role", value["role"]), .content = to_text(op, "content", value["content"])};
}

std::vector<ChatMessage> to_messages(nb::handle values) {
  std::vector<ChatMessage> messages;
  for (nb::handle item : to_items("format_chat_messages", "messages", values)) messages.push_back(to_message(item));
  return messages;
}

}  // namespace

void bind_chat(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_chat", "What pygpukit.llm formats conversations with; internal.");
  nb::class_<ChatMessage>(m, "ChatMessage", "One message of a conversation.")
      .def(
          "__init__",
          [](ChatMessage* self, nb::str role, nb::str content) {
            new (self) ChatMessage{to_text("ChatMessage", "role", role), to_text("ChatMessage", "content", content)};
          },
          "role"_a, "content"_a)
      .def_rw("role", &ChatMessage::role, "system, user or assistant.")
      .def_rw("content", &ChatMessage::content)
      .def(
          "__eq__", [](const ChatMessage& self, const ChatMessage& other) { return self == other; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__repr__", [](const ChatMessage& self) {
        return nb::str("ChatMessage(role={!r}, content={!r})").format(self.role, self.content);
      });
  m.def(
      "format_chat_messages",
      [](const AnyObject& messages, const std::string& model_type, bool add_generation_prompt) {
        return text::format_chat(to_messages(messages), text::chat_family(model_type), add_generation_prompt);
      },
      "messages"_a, "model_type"_a = "chatml", "add_generation_prompt"_a = true,
      "The prompt of a conversation in the form of a family: chatml, qwen, llama2, llama3, mistral; of others chatml.");
  m.def(
      "_format_like",
      [](const AnyObject& messages, const std::string& jinja, bool add_generation_prompt) {
        return text::format_chat(to_messages(messages), text::chat_family_of_template(jinja), add_generation_prompt);
      },
      "messages"_a, "chat_template"_a, "add_generation_prompt"_a = true,
      "In the form of the family whose marks a Jinja template writes; internal.");

  nb::class_<ThinkingParser>(m, "ThinkingParser", "Splits streamed text into thoughts (<think>...</think>) and answer.")
      .def(nb::init<bool>(), "in_thinking"_a = false)
      .def(
          "add_text",
          [](ThinkingParser& self, nb::str text) {
            return self.add_text(to_text("ThinkingParser.add_text", "text", text));
          },
          "text"_a, "What the text adds: (thinking, response). The beginning of a tag waits for its rest.")
      .def("flush", &ThinkingParser::flush, "What waited: (thinking, response).")
      .def("reset", &ThinkingParser::reset, "Begins again.")
      .def_prop_ro("in_thinking", &ThinkingParser::in_thinking)
      .def_prop_ro("thinking_content", &ThinkingParser::thinking_content, "All thoughts so far.")
      .def_prop_ro("response_content", &ThinkingParser::response_content, "All of the answer so far.");
}

}  // namespace gpukit
