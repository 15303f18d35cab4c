"""A conversation in a few lines: python examples/chat/chat.py MODEL ["question" ...].

Each answer is printed as it comes; the questions are one conversation, whose beginning is computed once.
"""

import sys

from pygpukit.llm import ChatMessage, Tokenizer, apply_chat_template, load_model_from_safetensors


def main(folder, *questions):
    model = load_model_from_safetensors(folder)
    tokenizer = Tokenizer(folder)
    engine = model.engine(max_tokens=min(4096, model.config.max_position_embeddings))
    ends = {*model.config.eos_token_ids, tokenizer.eos_token_id} - {None}
    messages = []
    for question in questions or ("Tell me a story.", "And then?"):
        messages.append(ChatMessage("user", question))
        ids = apply_chat_template(messages, tokenizer)
        answer = ""
        print(f"> {question}")
        for token in model.stream(
            ids, 40, engine=engine, temperature=0.0, stop_tokens=sorted(ends), tokenizer=tokenizer
        ):
            answer += token.text
            print(token.text, end="", flush=True)
        print()
        messages.append(ChatMessage("assistant", answer))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
