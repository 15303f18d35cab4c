"""A conversation with a language model some of whose operations are Triton's, each chosen by itself:

    python examples/chat/chat_cli_triton.py MODEL "question" ... --triton norm,rope,attention,softmax

What --triton does not name is PyGPUkit's own; all run on one stream. Without --triton PYGPUKIT_USE_TRITON decides, or
whether there are Triton and a GPU. With TRITON_INTERPRET=1 Triton's interpreter makes its operations on the CPU, slowly.
For models of the families LLaMA, Mistral and Qwen2.
"""

import argparse

import numpy as np

import pygpukit as gp
from pygpukit import triton
from pygpukit.llm import ChatMessage, Tokenizer, apply_chat_template, load_model_from_safetensors

OPERATIONS = ("norm", "rope", "attention", "softmax")
FAMILIES = ("llama", "mistral", "qwen2")


class HybridModel:
    """The forward of a model, operation by operation, over keys and values of the tokens so far."""

    def __init__(self, model, chosen):
        if model.config.model_type not in FAMILIES or model.config.sliding_window:
            raise SystemExit(f"{model.config.model_type}: this example knows {', '.join(FAMILIES)} without a window")
        self.model, self.chosen = model, chosen
        self.tables = [gp.from_numpy(t).to(model.device) for t in (model.blocks[0].attn._cos, model.blocks[0].attn._sin)]
        self.past = [None] * len(model.blocks)
        self.length = 0

    def norm(self, layer, x):
        if "norm" not in self.chosen:
            return layer(x)
        out = gp.empty_like(x)
        triton.kernels.rmsnorm(x, layer.weight, out, layer.eps)
        return out

    def rope(self, q, k):
        cos, sin = (table[self.length : self.length + len(q)] for table in self.tables)
        if "rope" not in self.chosen:
            gp.rope_inplace(q, k, cos, sin)
            return q, k
        turned = gp.empty_like(q), gp.empty_like(k)
        for source, target in zip((q, k), turned, strict=True):
            triton.kernels.rotary(source, cos, sin, target)
        return turned

    def attention(self, q, k, v):
        q, k, v = (array.transpose((1, 0, 2)) for array in (q, k, v))  # [heads, tokens, width], views
        if "attention" not in self.chosen:
            return gp.sdpa_causal(q, k, v)
        out = gp.empty(q.shape, dtype=q.dtype)
        triton.kernels.attention(q, k, v, out)
        return out

    def attend(self, i, attn, x):
        tokens, width = len(x), attn.head_dim
        qkv = attn.qkv_proj(x)
        parts, start = [], 0
        for size in (attn.q_dim, attn.k_dim, attn.v_dim):
            parts.append(qkv[:, start : start + size].contiguous().reshape((tokens, size // width, width)))
            start += size
        q, k = self.rope(*parts[:2])
        new = [k, parts[2]]
        if self.past[i] is not None:
            new = [gp.concatenate(pair, axis=0) for pair in zip(self.past[i], new, strict=True)]
        self.past[i] = new
        heads = self.attention(q, *new)
        return attn.o_proj(heads.transpose((1, 0, 2)).contiguous().reshape((tokens, attn.q_dim)))

    def logits(self, ids):
        """Of the token after `ids`, which follow those of earlier calls."""
        x = gp.take(self.model.embed_tokens, gp.from_numpy(np.array(ids)).to(self.model.device), axis=0)
        x = x.astype(self.model.dtype)
        for i, block in enumerate(self.model.blocks):
            x = x + self.attend(i, block.attn, self.norm(block.attn_norm, x))
            x = x + block.mlp(self.norm(block.mlp_norm, x))
        self.length += len(ids)
        return self.model.get_logits(self.norm(self.model.final_norm, x[-1:].contiguous()))

    def draw(self, logits, temperature, rng):
        if temperature == 0:
            return int(gp.argmax(logits))
        scaled = logits.astype("float32") / temperature
        if "softmax" in self.chosen:
            weights = gp.empty_like(scaled)
            triton.kernels.softmax(scaled, weights)
        else:
            weights = gp.softmax(scaled, axis=-1)
        sums = np.cumsum(weights.to_numpy(dtype="float64").ravel())
        return int(np.searchsorted(sums, rng.random() * sums[-1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="the folder of a model")
    parser.add_argument("questions", nargs="*", metavar="QUESTION")
    parser.add_argument("--tokenizer", metavar="PATH", help="without it the model's own")
    parser.add_argument("--triton", metavar="OPS", help=f"of {','.join(OPERATIONS)}; an empty text: none")
    parser.add_argument("--dtype", help="of activations: float32 on the CPU and the checkpoint's on a GPU without it")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told before all")
    parser.add_argument("--max-new-tokens", type=int, default=40, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    given = parser.parse_args()
    usual = ",".join(OPERATIONS) if triton.use_triton_backend() else ""
    chosen = {name for name in (usual if given.triton is None else given.triton).split(",") if name}
    if unknown := chosen - {*OPERATIONS}:
        parser.error(f"--triton: {', '.join(sorted(unknown))}: wanted some of {', '.join(OPERATIONS)}")

    device = gp.default_device()
    model = load_model_from_safetensors(given.model, dtype=given.dtype or ("float32" if device.kind == "cpu" else None))
    tokenizer = Tokenizer(given.tokenizer or given.model)
    ends = {*model.config.eos_token_ids, tokenizer.eos_token_id} - {None}
    rng = np.random.default_rng(given.seed)
    print(f"Triton: {', '.join(sorted(chosen)) or 'nothing'}; on {model.device}")
    messages = [ChatMessage("system", given.system)] if given.system else []
    for question in given.questions or ["Tell me a story."]:
        messages.append(ChatMessage("user", question))
        hybrid = HybridModel(model, chosen)
        stream, answer = tokenizer.stream(), ""
        logits = hybrid.logits(apply_chat_template(messages, tokenizer))
        print(f"> {question}")
        for _ in range(given.max_new_tokens):
            token = hybrid.draw(logits, given.temperature, rng)
            if token in ends:
                break
            piece = stream.push(token)
            answer += piece
            print(piece, end="", flush=True)
            logits = hybrid.logits([token])
        rest = stream.flush()
        print(rest)
        answer += rest
        messages.append(ChatMessage("assistant", answer))


if __name__ == "__main__":
    main()
