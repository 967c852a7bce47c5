"""What the benchmark scripts share: sections of docs/benchmarks.md, and tables of networks."""
import argparse
import datetime
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from daemon import ROOT, shared, skip  # noqa: E402
from networks_test import GROUPS  # noqa: E402

JUDGED = [name for group in GROUPS for name in group]


def write_section(name, lines):
    """Puts the lines between the section's markers."""
    page = ROOT / "docs" / "benchmarks.md"
    begin, end = f"<!-- {name} begin -->", f"<!-- {name} end -->"
    head, rest = page.read_text().split(begin)
    page.write_text(head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1])


def network_arguments(description):
    """The parser of a script that makes a row for each network."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("build", type=Path)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--write", action="store_true")
    return parser


def network_table(arguments, section, conditions, titles, row, known=JUDGED):
    """Prints, and writes when asked to, the rows `row(build, source, name, folder)` of networks."""
    source = shared()
    if source is None:
        skip("the folder of real models is not beside this checkout (SLUICE_SHARED)")
    table = [f"{datetime.date.today()}, {conditions}", "", "| " + " | ".join(titles) + " |",
             "|---" * len(titles) + "|"]
    for name in arguments.networks or known:
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            table.append(row(arguments.build, source, name, Path(folder)))
        print(table[-1], flush=True)
    if arguments.write:
        write_section(section, table)
