"""pytest's view of the judge: its options. The hooks are in course/plugin/hooks.py."""

from __future__ import annotations

import argparse

pytest_plugins = ["pytester", "course.plugin.hooks"]


def pytest_addoption(parser):
    group = parser.getgroup("triton kata")
    add = group.addoption
    add("--solutions", action="store_true", help="grade the reference solutions, not the stubs")
    add(
        "--subject",
        action="append",
        metavar="DIR",
        help="grade the files of DIR, a folder that mirrors puzzles/; for a class, give it several "
        "times, or a folder of such folders",
    )
    add(
        "--sealed",
        action="store_true",
        help="run the launchers of --subject in cells, apart from the judge, which replays on its "
        "own tensors what they launch",
    )
    add(
        "--results",
        metavar="DIR",
        help="grade a class at once: each person's puzzle in a process of its own, several at a "
        "time; DIR keeps what was found, and what has not changed since is not graded again",
    )
    add("--jobs", type=int, metavar="N", help="how many processes --results runs at a time")
    add(
        "--cluster",
        metavar="ADDRESS",
        help="run what --results grades on a Ray cluster, each person's puzzle as one task; auto "
        "is the cluster that this machine belongs to",
    )
    add("--one-of-class", nargs=2, help=argparse.SUPPRESS)
    add(
        "--page",
        metavar="FILE",
        help="write what the run finds as one HTML file",
    )
    add(
        "--json",
        metavar="FILE",
        help="write what the run finds as data: every check, fault, figure and time; "
        "docs/report.schema.json describes it",
    )
    add("--production", action="store_true", help="grade the second level too")
    add("--list", action="store_true", help="show the ladder with your progress; grade nothing")
    add(
        "--explain",
        nargs="?",
        const="",
        metavar="KIND",
        help="say what a kind of fault means, how to find it and how to fix it; without KIND list "
        "all kinds; grade nothing",
    )
    add("--hint", action="store_true", help="print the next hint of a puzzle; grade nothing")
    add(
        "--reset",
        action="store_true",
        help="bring the stub of a puzzle back, and keep your file beside it; grade nothing",
    )
    add(
        "--workspace",
        metavar="DIR",
        help="lay out stubs and lessons in DIR, a folder of your own that new versions leave "
        "alone, or bring it up to date; grade nothing",
    )
    add(
        "--watch",
        action="store_true",
        help="grade the first puzzle that is not solved, again whenever its file is saved, then "
        "the next; takes keys: h hint, n next, l list, p pictures, q quit",
    )
    add(
        "--compare",
        action="store_true",
        help="grade, then compare what is solved with our solution",
    )
    add(
        "--show-solution",
        action="store_true",
        help="print our solution of a puzzle that you have solved",
    )
    add(
        "--pictures",
        metavar="DIR",
        help="grade, and write to DIR pictures of what a call of each puzzle did: which program "
        "touches what, sectors, the order of tiles, reuse, and where a result is wrong",
    )
    add("--proof", action="store_true", help="run only what proves the tests and the judge")
    add(
        "--allow-unrepaired",
        action="store_true",
        help="pass although repairs of Triton's interpreter have no effect on this version",
    )
    add(
        "--time-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="end a test after this many seconds, and a program of a kernel after a third of it, "
        "0 for never (default: 60)",
    )
    add(
        "--speed-scale",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="ask for this share of each speed-up: the bars were set on an H200 (default: 1)",
    )
    add(
        "--targets",
        default="sm_80,sm_90",
        metavar="LIST",
        help="what test_compiles compiles for (default: sm_80,sm_90; gfx942 is an AMD GPU)",
    )
    add(
        "--compiled",
        nargs="?",
        const="",
        metavar="DIR",
        help="show what the compiler makes of each kernel: registers, spills, tensor cores, loops; "
        "in DIR leave its TTIR, TTGIR, PTX and machine code with your lines beside; grade nothing",
    )
    add(
        "--try",
        action="append",
        dest="tries",
        metavar="NAME=VALUES",
        help="show what other values of a constexpr or launch option change: "
        "--try BLOCK=64,128 --try num_warps=4,8; grade nothing",
    )
