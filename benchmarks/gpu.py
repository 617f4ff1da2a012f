"""What a rented GPU does with the encoder and the exact search, in at most eight minutes.

    python benchmarks/gpu.py                          (device cuda, about a million rows a side)
    python benchmarks/gpu.py --device cuda:all --seconds 240
    python benchmarks/gpu.py --device cpu --rows small    (tries the script where there is no GPU)

prints, each line as soon as it is known: the device and its peak (that of a big half-precision
product measured here, and that of the data sheet); sentences a second of the encoder with the
bundled model; whether the search on the device finds the same lists, to the byte, as on the CPU;
and the throughput of the search over tiles as a share of the peak. A part is begun only while the
time that is left holds it.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mining.devices import full_accumulation, resolve_devices
from mining.encoder import load_encoder
from mining.search.device_tiles import TorchProposer
from mining.search.exact import nearest_neighbours
from mining.search.tiles import TileProposer
from mining.search.vectors import from_stored

DIM, K = 300, 4
#: Dense float16 products with sums in float32, TFLOP/s of the data sheets, without sparsity; the
#: first name that is part of the device's counts.
DATA_SHEET = {
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100 NVL": 835.0,
    "H100": 989.0,
    "A100": 312.0,
    "L40S": 362.0,
    "L4": 121.0,
    "A10G": 70.0,
    "A10": 125.0,
    "V100": 125.0,
    "T4": 65.0,
    "RTX 4090": 165.0,
    "RTX 3090": 71.0,
}
#: Rows of both sides: those compared with the CPU, and those of the searches that are timed.
SIZES = {
    "small": ((1500, 2500), [(3000, 5000)], 20_000, 512),
    "large": ((20_000, 40_000), [(100_000, 200_000), (250_000, 500_000), (1_000_000, 1_000_000)], 1_000_000, 8192),
}


class Budget:
    """The time that is left."""

    def __init__(self, total: float) -> None:
        self.end = time.perf_counter() + total

    @property
    def left(self) -> float:
        return self.end - time.perf_counter()

    def holds(self, needed: float, what: str) -> bool:
        """Whether `needed` seconds are left; says so if not."""
        if self.left < needed:
            say(f"{what}: left out, needs about {needed:.0f} s and {self.left:.0f} s are left")
        return self.left >= needed


def say(text: str) -> None:
    """A line, at once: a run that is cut off keeps what it has measured."""
    print(text, flush=True)


def wait(devices: list[torch.device]) -> None:
    """Until the devices have done what they were given."""
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], devices: list[torch.device]) -> float:
    """Wall time of one call and all it started."""
    wait(devices)
    started = time.perf_counter()
    work()
    wait(devices)
    return time.perf_counter() - started


def describe(devices: list[torch.device]) -> None:
    """Devices, versions and cores."""
    say(f"{platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}, CUDA {torch.version.cuda}")
    for device in devices:
        if device.type == "cuda":
            free, total = torch.cuda.mem_get_info(device)
            say(f"{device}: {torch.cuda.get_device_name(device)}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")


def peak(devices: list[torch.device], size: int) -> float:
    """Floating-point operations a second of a big half-precision product on the first device."""
    device = devices[0]
    dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    left, right = (torch.randn((size, size), device=device).to(dtype) for _ in range(2))
    out = torch.empty((size, size), device=device, dtype=dtype)
    with full_accumulation():
        times = [seconds(lambda: torch.mm(left, right.T, out=out), devices[:1]) for _ in range(8)]
    measured = 2 * size**3 / statistics.median(times[2:])
    say(f"peak: {measured / 1e12:.3g} TFLOP/s for a {dtype} product of {size} x {size} matrices")
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        known = next((flops for part, flops in DATA_SHEET.items() if part in name), None)
        share = f"{known:.0f} TFLOP/s, of which measured {measured / known / 1e12:.0%}" if known else "not known here"
        say(f"data sheet: {share}")
    return measured


def made_up(count: int, chance: np.random.Generator) -> list[str]:
    """Sentences of about twenty made-up words, their frequencies by Zipf's law."""
    syllables = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]
    words = ["".join(chance.choice(syllables, size=length)) for length in chance.integers(1, 5, 50_000)]
    picked = np.minimum(chance.zipf(1.2, (count, 20)), len(words)) - 1
    return [" ".join(words[index] for index in row) for row in picked]


def sentences(count: int, chance: np.random.Generator) -> tuple[str, list[str]]:
    """What they are, and English sentences of ``$BITEXT_DATA`` where it is set, else made-up
    ones."""
    paths = sorted(Path(os.environ.get("BITEXT_DATA", "no such folder"), "bitext").glob("en-*.tsv.xz"))
    texts: dict[str, None] = {}
    for path in paths:
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            texts.update((line.split("\t", 1)[0], None) for line in itertools.islice(lines, 4 * count))
        if len(texts) >= count:
            return "real", list(texts)[:count]
    return "made-up", made_up(count, chance)


def encoding(devices: list[torch.device], count: int, budget: Budget) -> None:
    """Sentences a second: all at once into a new encoder, and again with its words known."""
    chance = np.random.default_rng(1)
    kind, texts = sentences(count, chance)
    load_encoder(device=str(devices[0])).encode(texts[:1000])
    encoder = load_encoder(device=str(devices[0]))
    part = len(texts) // 10
    first = seconds(lambda: encoder.encode(texts[:part]), devices)
    say(f"encoding, first {part} {kind} sentences, no word known: {part / first:,.0f} sentences/s")
    if budget.holds(30 * first, "encoding of all sentences"):
        rest = seconds(lambda: encoder.encode(texts[part:]), devices)
        say(f"encoding, the next {len(texts) - part}: {(len(texts) - part) / rest:,.0f} sentences/s")
        again = seconds(lambda: encoder.encode(texts), devices)
        say(f"encoding, all {len(texts)} again: {len(texts) / again:,.0f} sentences/s; {encoder.statistics}")


def unit_rows(rows: int, device: torch.device, seed: int) -> np.ndarray:
    """Random directions, as stored vectors give them back; made on the device."""
    made = torch.Generator(device=device).manual_seed(seed)
    blocks = []
    for start in range(0, rows, 65_536):
        block = torch.randn((min(65_536, rows - start), DIM), generator=made, device=device)
        block /= torch.linalg.vector_norm(block, dim=1, keepdim=True)
        blocks.append(block.half().cpu().numpy())
    return from_stored(np.concatenate(blocks))


def equality(names: str, devices: list[torch.device], sides: tuple[int, int]) -> None:
    """Lists of the device and of the CPU, byte by byte, with equal and nearly equal vectors among
    them."""
    source, target = unit_rows(sides[0], devices[0], 2), unit_rows(sides[1], devices[0], 3)
    target[: len(source) // 2] = source[: len(source) // 2]
    target[-200:] = target[0]
    for halves in (True, False):
        ours = nearest_neighbours(source, target, K, TorchProposer(names, halves=halves))
        theirs = nearest_neighbours(source, target, K, TileProposer(halves=False))
        same = all(
            a.ids.tobytes() == b.ids.tobytes() and a.cosines.tobytes() == b.cosines.tobytes()
            for a, b in zip(ours, theirs, strict=True)
        )
        kind = "float16" if halves else "float32"
        say(f"search of {sides[0]} x {sides[1]}, {kind}: lists {'equal' if same else 'DIFFER from'} those of the CPU")


def search(names: str, devices: list[torch.device], sides: tuple[int, int], best: float) -> float:
    """Throughput of the pass over tiles, and the whole search with its certification; returns
    seconds."""
    source, target = unit_rows(sides[0], devices[0], 4), unit_rows(sides[1], devices[0], 5)
    propose = TorchProposer(names)
    for device in devices:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
    passing = seconds(lambda: propose(source, target, K + propose.extra), devices)
    memory = sum(torch.cuda.max_memory_allocated(device) for device in devices if device.type == "cuda")
    whole = seconds(lambda: nearest_neighbours(source, target, K, propose), devices)
    flops = 2 * sides[0] * sides[1] * DIM / passing
    plan = propose.plan(DIM, sides, K + propose.extra)
    say(
        f"search of {sides[0]} x {sides[1]} x {DIM}: tiles {plan.tiles[0]} x {plan.tiles[1]} {plan.dtype}, "
        f"pass {passing:.2f} s, {flops / 1e12:.3g} TFLOP/s, {flops / len(devices) / best:.0%} of the measured peak; "
        f"{memory / 2**30:.2f} GiB; with certification {whole:.2f} s"
    )
    return whole + passing


def main() -> None:
    """Measure until the time is used."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:0,cuda:1, cuda:all or cpu")
    parser.add_argument("--rows", choices=list(SIZES), default="large")
    parser.add_argument("--seconds", type=float, default=420.0, help="begin nothing that would take longer in all")
    a = parser.parse_args()
    budget = Budget(a.seconds)
    compared, searched, texts, size = SIZES[a.rows]
    devices = resolve_devices(a.device)
    describe(devices)
    best = peak(devices, size)
    if budget.holds(20, "comparison with the CPU"):
        equality(a.device, devices, compared)
    needed, before = 15.0, 0
    for sides in searched:
        pairs = sides[0] * sides[1]
        needed = needed * pairs / before if before else needed
        if not budget.holds(1.5 * needed + 30, f"search of {sides[0]} x {sides[1]}"):
            break
        needed, before = search(a.device, devices, sides, best), pairs
    if budget.holds(30, "encoding"):
        encoding(devices, texts, budget)


if __name__ == "__main__":
    main()
