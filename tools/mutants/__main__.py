"""Draw small changes, plant each in a copy of the tree, and say which of them no test finds.

python -m tools.mutants --seed 1 --draw 50 --folders transactions groups
python -m tools.mutants --only 3f9a2c10d4
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

from tools.mutants import test_map
from tools.mutants.collected import CannotCollect, Collected
from tools.mutants.folders import FOLDERS, Folder, folder_of
from tools.mutants.kinds import files_of, mutants_of
from tools.mutants.mutant import Mutant, drawn
from tools.mutants.test_map import TestMap
from tools.mutants.tree import Tree, files_in
from tools.mutants.trial import Asked, Outcome, Trial, Verdict

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".cache" / "mutants"


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    names = [folder.name for folder in FOLDERS] if options.only else options.folders
    paths = files_in(ROOT)
    sources = {path: (ROOT / path).read_bytes() for path in files_of(names, paths)}
    mutants = [mutant for path, source in sources.items() for mutant in mutants_of(path, source)]
    chosen = [mutant for mutant in mutants if mutant.id in options.only] or drawn(mutants, options.seed, options.draw)
    missing = set(options.only) - {mutant.id for mutant in chosen}
    if missing:
        return _refuse(f"no mutant has the id {', '.join(sorted(missing))}: its code has changed")
    if options.only:
        chosen.sort(key=lambda mutant: options.only.index(mutant.id))
    print(f"{len(chosen)} of {len(mutants)} mutants", flush=True)
    if options.list:
        for mutant in chosen:
            print(_headline(mutant, sources), mutant.diff(sources[mutant.path]), sep="\n")
        return 0
    return _run(options, paths, sources, chosen)


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def _run(options: argparse.Namespace, paths: list[str], sources: dict[str, bytes], chosen: list[Mutant]) -> int:
    folders = [folder for folder in FOLDERS if any(folder_of(mutant.path) == folder for mutant in chosen)]
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="oncelog-mutants-") as directory:
        trees = [Tree(Path(directory) / str(number), ROOT, paths) for number in range(options.jobs)]
        _stop_on_signals(trees)
        try:
            maps = _maps(folders, trees, with_further=options.further_seconds > 0)
            asked = Asked(options.further_seconds, options.start_seconds, not options.without_java)
            trials = [Trial(tree, maps, Collected(tree, list(maps)), asked) for tree in trees]
            for folder in folders:
                run = trials[0].without_a_change(folder)
                if not run.passed:
                    return _refuse(f"{folder.tests} fails without any change: {run.failed_test}")
            for outcome in _tried(trials, chosen):
                outcomes.append(outcome)
                print(
                    f"{outcome.verdict.value:<20} {_headline(outcome.mutant, sources)}  {outcome.by}".rstrip(),
                    flush=True,
                )
                if not outcome.verdict.is_found:
                    print(outcome.mutant.diff(sources[outcome.mutant.path]), flush=True)
        except KeyboardInterrupt:
            print(_table(folders, outcomes))
            return 130
        except CannotCollect as error:
            return _refuse(f"the tests cannot be collected: {error}")
        finally:
            for tree in trees:
                tree.stop()
    print(_table(folders, outcomes))
    return 0 if all(outcome.verdict.is_found for outcome in outcomes) else 1


def _stop_on_signals(trees: list[Tree]) -> None:
    """End what runs in the trees, say what was found until then, and remove them."""

    def stop(number: int, frame: FrameType | None) -> None:
        for tree in trees:
            tree.stop()
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _parser() -> argparse.ArgumentParser:
    names = [folder.name for folder in FOLDERS]
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="what decides which mutants are drawn")
    parser.add_argument("--draw", type=int, default=50, metavar="N", help="how many are drawn")
    parser.add_argument("--folders", nargs="+", choices=names, default=names, metavar="FOLDER", help=", ".join(names))
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="these mutants, whatever the seed draws")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run no test")
    parser.add_argument("--jobs", type=int, default=2, help="how many are tried at once, each in a copy of the tree")
    parser.add_argument(
        "--further-seconds", type=float, default=60, help="how long tests of other folders may take for one mutant"
    )
    parser.add_argument(
        "--start-seconds",
        type=float,
        default=60,
        help="how long the tests may take to begin, before a mutant counts as one that never ends",
    )
    parser.add_argument("--without-java", action="store_true", help="leave out the tests that start a Java")
    return parser


def _maps(folders: list[Folder], trees: list[Tree], *, with_further: bool) -> dict[str, TestMap]:
    asked = [(folder.tests, *(folder.further if with_further else ())) for folder in folders]
    needed = list(dict.fromkeys(tests for each in asked for tests in each))
    free: SimpleQueue[Tree] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def make(tests: str) -> None:
        tree = free.get()
        try:
            test_map.make(tests, KEPT, tree)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(make, needed))
    return {tests: TestMap(tests, KEPT) for tests in needed}


def _tried(trials: list[Trial], mutants: list[Mutant]) -> Iterator[Outcome]:
    free: SimpleQueue[Trial] = SimpleQueue()
    for trial in trials:
        free.put(trial)

    def of(mutant: Mutant) -> Outcome:
        trial = free.get()
        try:
            return trial.of(mutant)
        finally:
            free.put(trial)

    with ThreadPoolExecutor(len(trials)) as pool:
        yield from pool.map(of, mutants)


def _headline(mutant: Mutant, sources: dict[str, bytes]) -> str:
    return f"{mutant.id} {mutant.path}:{mutant.line(sources[mutant.path])} {mutant.kind.value}"


def _table(folders: list[Folder], outcomes: list[Outcome]) -> str:
    lines = ["", f"{'folder':<18}{'drawn':>6}{'found':>7}{'share':>7}{'by time':>9}{'not run':>9}{'undecided':>11}"]
    by_folder = {
        folder.name: [each for each in outcomes if folder_of(each.mutant.path) == folder] for folder in folders
    }
    for name, tried in [*by_folder.items(), ("all", outcomes)]:
        found = sum(each.verdict.is_found for each in tried)
        by_time = sum(each.verdict is Verdict.BY_TIME for each in tried)
        not_run = sum(each.verdict is Verdict.NOT_RUN for each in tried)
        undecided = sum(each.verdict is Verdict.UNDECIDED for each in tried)
        share = found / max(len(tried) - undecided, 1)
        lines.append(f"{name:<18}{len(tried):>6}{found:>7}{share:>7.0%}{by_time:>9}{not_run:>9}{undecided:>11}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
