"""Trains the model that ships with the package, from stories that grammar.py makes. Needs torch and tokenizers.

    python tools/train_default/train.py --out FOLDER [--minutes 4.5]

Writes model.safetensors (float16), config.json, tokenizer.json and training.json. The learning rate follows the clock,
so that a run ends when its minutes are over, on any device.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from model import Config, TinyLlama
from safetensors.torch import save_file
from stories import first_fault, parses, write
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

BOS, EOS = 0, 1


def make_stories(job: tuple[int, int]) -> list[str]:
    seed, count = job
    rng = random.Random(seed)
    return [write(rng) for _ in range(count)]


def make_tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    return tokenizer


def tokens_of(tokenizer: Tokenizer, texts: list[str], context: int) -> tuple[np.ndarray, np.ndarray, int]:
    """All ids in one row, the start of each story, and how many stories are longer than the context."""
    rows, long = [], 0
    for start in range(0, len(texts), 20000):
        for encoding in tokenizer.encode_batch(texts[start : start + 20000]):
            rows.append(np.array([*encoding.ids, EOS], dtype=np.uint16))
            long += len(encoding.ids) >= context
    starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
    return np.concatenate(rows), starts, long


@torch.no_grad()
def sample(model: torch.nn.Module, count: int, context: int, temperature: float, device: str) -> list[list[int]]:
    ids = torch.full((count, 1), BOS, dtype=torch.int64, device=device)
    generator = torch.Generator(device=device).manual_seed(7)
    for _ in range(context - 1):
        logits = model(ids)[:, -1].float() / temperature
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1, generator=generator)], dim=1)
        if bool((ids == EOS).any(dim=1).all()):
            break
    return [row[1 : row.index(EOS)] if EOS in row else row[1:] for row in ids.tolist()]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=4.5, help="of training, after the data is made")
    parser.add_argument("--stories", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    began = time.time()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    config = Config(vocab_size=options.vocabulary)

    workers = max(1, (os.cpu_count() or 2) - 1)
    piece = 2000
    jobs = [(seed, min(piece, options.stories - seed * piece)) for seed in range(math.ceil(options.stories / piece))]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        texts = [text for part in pool.imap(make_stories, jobs) for text in part]
    distinct = len(set(texts))
    print(f"{len(texts)} stories, {distinct} different, {time.time() - began:.0f} s", flush=True)
    tokenizer = make_tokenizer(texts[:20000], options.vocabulary)
    ids, starts, long = tokens_of(tokenizer, texts, config.max_position_embeddings)
    held = max(1, len(starts) // 200)  # the last stories are not trained on
    print(f"{len(ids)} tokens, {long} stories past the context, {time.time() - began:.0f} s", flush=True)

    data = torch.from_numpy(ids.astype(np.int16)).to(device)
    window = torch.arange(config.max_position_embeddings + 1, device=device)
    limit = len(ids) - config.max_position_embeddings - 1
    train_starts = torch.from_numpy(starts[: -held][starts[: -held] < limit]).to(device)
    held_starts = torch.from_numpy(starts[-held:][starts[-held:] < limit]).to(device)

    def batch_at(where: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = data[where[:, None] + window].long()
        return rows[:, :-1], rows[:, 1:]

    model = TinyLlama(config).to(device)
    count = sum(parameter.numel() for parameter in model.parameters())
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}],
        lr=options.rate, betas=(0.9, 0.98), fused=device == "cuda",
    )  # fmt: skip

    def loss_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            logits = model(inputs)
        return F.cross_entropy(logits.float().view(-1, config.vocab_size), targets.reshape(-1))

    step_loss = loss_of
    if device == "cuda" and not options.no_compile:
        try:
            step_loss = torch.compile(loss_of)
            step_loss(*batch_at(train_starts[: options.batch])).backward()
            optimizer.zero_grad(set_to_none=True)
        except Exception as error:  # the eager way is slower and just as right
            print(f"not compiled: {error}".splitlines()[0], flush=True)
            step_loss = loss_of

    step, losses, start = 0, [], time.time()
    seconds = options.minutes * 60
    while (done := (time.time() - start) / seconds) < 1:
        rate = options.rate * min(1.0, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        chosen = train_starts[torch.randint(len(train_starts), (options.batch,), device=device)]
        loss = step_loss(*batch_at(chosen))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 20 == 0:
            losses.append(loss.item())
        if step % 500 == 0:
            print(f"step {step} loss {np.mean(losses[-25:]):.4f} {time.time() - start:.0f} s", flush=True)

    # What ships is float16, so that is what is judged.
    state = {name: tensor.detach().to(torch.float16) for name, tensor in model.state_dict().items()}
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    model.eval()
    with torch.no_grad():
        held_losses = [
            loss_of(*batch_at(held_starts[at : at + options.batch])).item()
            for at in range(0, min(len(held_starts), 8 * options.batch), options.batch)
        ]  # fmt: skip
    results = {}
    for temperature in (0.7, 1.0):
        stories = [tokenizer.decode(row) for row in sample(model, 100, config.max_position_embeddings, temperature, device)]
        good = sum(parses(story) for story in stories)
        seen = len(set(stories) & set(texts))
        results[str(temperature)] = {"parse": good, "of": len(stories), "word for word in the training text": seen}
        print(f"temperature {temperature}: {good} of {len(stories)} parse, {seen} seen before", flush=True)
        for fault in [first_fault(story) for story in stories if not parses(story)][:3]:
            print("  fault:", fault, flush=True)
        print(stories[0], flush=True)

    options.out.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.cpu().contiguous() for name, tensor in state.items()}, options.out / "model.safetensors")
    text = json.dumps(json.loads(tokenizer.to_str()), separators=(",", ":"))  # ASCII
    (options.out / "tokenizer.json").write_text(text + "\n")
    (options.out / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "float16",
                "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "bos_token_id": BOS,
                "eos_token_id": EOS, **vars(config),
            },
            indent=1,
        )
        + "\n"
    )  # fmt: skip
    report = {
        "text": "stories made by tools/train_default/grammar.py, nothing else",
        "stories": len(texts), "different": distinct, "tokens": len(ids), "parameters": count, "steps": step,
        "batch": options.batch, "context": config.max_position_embeddings, "loss": round(float(np.mean(losses[-25:])), 4),
        "held_out_loss": round(float(np.mean(held_losses)), 4), "sampled": results,
        "model_bytes": (options.out / "model.safetensors").stat().st_size,
        "tokenizer_bytes": (options.out / "tokenizer.json").stat().st_size,
        "training_seconds": round(time.time() - start), "seconds": round(time.time() - began),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "torch": torch.__version__,
    }  # fmt: skip
    (options.out / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
