// Chat prompts as text, for the families whose form is known. A model's own template is Jinja, which Python renders.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpukit::text {

struct ChatMessage {
  std::string role;  // system, user, assistant; any other where the family's form has roles
  std::string content;
  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};

enum class ChatFamily {
  chatml,   // <|im_start|>role\ncontent<|im_end|>\n, also Qwen's
  llama2,   // <s>[INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST] assistant </s>
  llama3,   // <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>
  mistral,  // <s>[INST] user [/INST] assistant</s>
};

/// The family that the name of a model (`Qwen3-8B`, `llama3`, `mixtral`) belongs to; chatml for any other.
ChatFamily chat_family(std::string_view name);
/// The family whose marks a Jinja template writes; chatml for any other.
ChatFamily chat_family_of_template(std::string_view jinja);

/// The prompt of a conversation. With `add_generation_prompt` it ends where the assistant's answer begins.
/// Throws ArgumentError where llama2 or mistral has no form for it: a system message that is not the first, turns of
/// user and assistant that do not alternate.
std::string format_chat(std::span<const ChatMessage> messages, ChatFamily family, bool add_generation_prompt);

}  // namespace gpukit::text
