"""Command line of the training of the built-in model."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from .card import model_card
from .checkpoint import llama_config, write_folder
from .corpus import Windows, read_stories, split_stories
from .tokenizer import BOS, EOS, train_tokenizer


def main(argv: list[str] | None = None) -> None:
    """Train the built-in model and write its checkpoint folder."""
    parser = argparse.ArgumentParser(prog="python -m headrace.sw.train_demo",
                                     description="Train the built-in model on short stories.")
    parser.add_argument("corpus", type=Path,
                        help="UTF-8 text, stories separated by <|end|>")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR",
                        help="checkpoint folder; its files are replaced")
    parser.add_argument("--seconds", type=int, default=2400,
                        help="training time (default: %(default)s)")
    parser.add_argument("--save-every", type=int, default=180, metavar="SECONDS",
                        help="time between checkpoints (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0,
                        help="seed of split, weights and order (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1,
                        help="processor threads (default: %(default)s)")
    args = parser.parse_args(argv)

    try:
        import torch
    except ImportError:
        sys.exit('Training needs PyTorch: pip install "headrace[train]"')
    from .llama import Shape
    from .training import BATCH, Figures, train

    torch.set_num_threads(args.threads)
    shape = Shape()
    stories = read_stories(args.corpus)
    learned, held_out = split_stories(stories, seed=args.seed)
    tokenizer = train_tokenizer(learned, vocab_size=shape.vocab_size)

    def encode(texts: list[str]) -> list[list[int]]:
        return [[*encoding.ids, EOS] for encoding in tokenizer.encode_batch(texts)]

    def save(weights, figures: Figures) -> None:
        print(f"{figures.seconds:5} s  step {figures.steps:5}  loss {figures.loss:.3f}  "
              f"{figures.bits_per_char:.3f} bits per character", flush=True)
        write_folder(
            args.output,
            config=llama_config(asdict(shape), bos=BOS, eos=EOS),
            weights=weights,
            tokenizer=tokenizer.to_str(pretty=True),
            card=model_card({
                **asdict(shape),
                **asdict(figures),
                "parameters": sum(weight.size for weight in weights.values()),
                "stories": len(stories),
                "held_out_stories": len(held_out),
                "held_out_chars": chars,
                "step_tokens": BATCH * windows.length,
                "minutes": figures.seconds / 60,
                "threads": f"{args.threads} thread" + "s" * (args.threads > 1),
                "half_head": shape.head_dim // 2,
                "seconds": args.seconds,
                "seed": args.seed,
            }))

    chars = sum(map(len, held_out))
    windows = Windows(encode(learned), shape.max_position_embeddings, seed=args.seed)
    train(shape, windows, encode(held_out), chars, seconds=args.seconds,
          save_every=args.save_every, seed=args.seed, save=save)


if __name__ == "__main__":
    main()
