#!/usr/bin/env python3
"""What `tempera prune --method channels` does to the models: groups, barriers, operations, latency and loss, as Markdown.

usage: prune.py [--program build/tempera] [--models FOLDER] [--out FOLDER] [--pairs N] [--seconds S] NAME[:RATIO[:repair]] ...
A name is one of peers.py; RATIO is 0.3 unless given.
"""

import argparse
import collections
import json
import pathlib
import subprocess

from peers import CASES, ROOT

RECIPES = {"terrain_unet": "terrain_consistency_unet", "unet_128_torchscript": "unet_ddpm", "unet_128_dynamo": "unet_ddpm"}
HEADER = ("| model | ratio | fitted anew | groups | barriers | parameters | GFLOP | ms | speed-up (at least) | loss |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")


def pair(report, name, scale):
    figure = next(f for f in report["figures"] if f["name"] == name)
    return f"{figure['before'] / scale:.3g} -> {figure['after'] / scale:.3g}"


def row(name, ratio, fitted, report):
    passes = {record["name"]: record for record in report["passes"]}
    record = passes["remove channels"]
    old, new = report["candidates"]
    losses = "; ".join(
        f"{loss['output']} {loss['metric']} {loss['value']:.3g}"
        + (f" (was {loss['baseline']:.3g})" if loss["baseline"] is not None else "")
        for loss in new["losses"])
    return (f"| {name} | {ratio} | {'yes' if fitted else 'no'} | {len(record['rewrites'])} | {len(record['skipped'])} "
            f"| {pair(report, 'parameters', 1e6)} M | {pair(report, 'operations', 1e9)} "
            f"| {old['latency']['median_ms']:.1f} -> {new['latency']['median_ms']:.1f} "
            f"| {new['speedup']['median']:.2f} ({new['speedup']['lower95']:.2f}) | {losses} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/tempera")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "models")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("pruned"))
    parser.add_argument("--pairs", default="30")
    parser.add_argument("--seconds", default="20")
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    print(HEADER, flush=True)
    reasons = collections.defaultdict(collections.Counter)
    for word in arguments.names:
        name, ratio, repair = word.split(":") + ["0.3", ""][word.count(":"):]
        file, data, _ = CASES[name]
        data = {"photos": ROOT / "examples/photos", "random": "random"}.get(data, arguments.models / data)
        recipe = ["--recipe", ROOT / f"bench/recipes/{RECIPES[name]}.recipe.toml"] if name in RECIPES else []
        command = [arguments.program, "prune", arguments.models / file, "--data", data, "--method", "channels",
                   "--pruning-ratio", ratio, *(["--repair"] if repair else []), *recipe, "--json", "--quiet", "--force",
                   "--pairs", arguments.pairs, "--seconds", arguments.seconds, "-o", arguments.out / word.replace(":", "_")]
        process = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if process.returncode != 0:
            print(f"| {name} | {ratio} | | fails: {process.stderr.splitlines()[0]} |", flush=True)
            continue
        report = json.loads(process.stdout)
        print(row(name, ratio, repair, report), flush=True)
        for skipped in next(p for p in report["passes"] if p["name"] == "remove channels")["skipped"]:
            reasons[name][skipped["text"].split(": ", 1)[1].rsplit(" (", 1)[0]] += 1
    for name, counts in reasons.items():
        print(f"\n{name}: " + "; ".join(f"{count} x {reason}" for reason, count in counts.most_common()))


if __name__ == "__main__":
    main()
