"""The words are in one room: ids and values fit its tables, and no other room reads them back.

By the source alone, of kernelgauge/ and course/ without kernelgauge/words/.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from string import Formatter
from typing import NamedTuple

import pytest

from course.paths import ROOT
from kernelgauge.words import OWN, TABLES, WORDS, symptoms, synchronising, touching
from kernelgauge.words.kinds import KINDS

pytestmark = pytest.mark.proof

ROOM = "kernelgauge/words/"
Function = ast.FunctionDef | ast.Lambda


class Module(NamedTuple):
    """A file of the instrument or of the course, as its source tells it."""

    file: str
    tree: ast.Module

    @property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Its functions and methods, by name."""
        return {it.name: it for it in ast.walk(self.tree) if isinstance(it, ast.FunctionDef)}


@functools.cache
def modules(*folders: str) -> list[Module]:
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    files = {str(path.relative_to(ROOT)): path for path in found}
    return [
        Module(file, ast.parse(path.read_text()))
        for file, path in files.items()
        if not file.startswith(ROOM)
    ]


def calls(node: ast.AST) -> Iterator[ast.Call]:
    return (it for it in ast.walk(node) if isinstance(it, ast.Call))


def name_of(node: ast.expr) -> str:
    """The last part of a name: `note`, or `say` of `words.say`."""
    return getattr(node, "attr", getattr(node, "id", ""))


# Ids and values


class Said(NamedTuple):
    """A note that the source makes.

    given: the names of its values; more: whether it may get others, by ** or in a loop
    """

    where: str
    id: str
    given: frozenset[str]
    more: bool


def texts(node: ast.expr) -> list[str]:
    """The strings that an expression may be, as far as they stand there."""
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return [node.value] if is_text else []


def keywords(call: ast.Call) -> frozenset[str]:
    return frozenset(it.arg for it in call.keywords if it.arg)


def has_more(call: ast.Call) -> bool:
    return any(it.arg is None for it in call.keywords)


def notes(module: Module) -> Iterator[Said]:
    """Every note whose id stands in the call, also where a function of the file passes it on."""
    passing = {}
    for function in module.functions.values():
        parameters = [it.arg for it in function.args.args]
        for call in calls(function):
            if name_of(call.func) == "note" and call.args and name_of(call.args[0]) in parameters:
                at = parameters.index(name_of(call.args[0])) - (parameters[0] == "self")
                own = {it.arg for it in (*function.args.args, *function.args.kwonlyargs)}
                others = keywords(call), own, bool(function.args.kwarg) and has_more(call)
                passing[function.name] = at, *others
    for call in calls(module.tree):
        where = f"{module.file}:{call.lineno}"
        if name_of(call.func) == "note" and call.args:
            for id in texts(call.args[0]):
                yield Said(where, id, keywords(call), has_more(call))
        elif name_of(call.func) in passing:
            at, fixed, own, passes = passing[name_of(call.func)]
            given = fixed | (keywords(call) - own if passes else frozenset())
            for id in texts(call.args[at]) if len(call.args) > at else []:
                yield Said(where, id, given, passes and has_more(call))


def asked(id: str) -> tuple[set[str], set[str], bool]:
    """The values that words need, those that they may have, and whether they take any other."""
    words = WORDS[id]
    if isinstance(words, str):
        named = {field.partition(".")[0] for field in fields(words)}
        return named, named, False
    parameters = inspect.signature(words).parameters.values()
    named = {it.name for it in parameters if it.kind is not it.VAR_KEYWORD}
    needed = {it.name for it in parameters if it.default is it.empty} & named
    return needed, named, len(named) < len(parameters)


def fields(words: str) -> Iterator[str]:
    for _, field, spec, _ in Formatter().parse(words):
        if field is not None:
            yield field
            yield from fields(spec or "")


# What a file gives to its notes in one place.
ADDED = {"kernelgauge/subject/guard.py": {"subject"}}


def misfits(said: Said) -> Iterator[str]:
    """What is wrong with the id or the values of a note."""
    if said.id.startswith(OWN):
        return
    if said.id not in WORDS:
        yield f"{said.where}: {said.id} is in no table of words"
        return
    needed, named, takes_more = asked(said.id)
    missing = needed - said.given - ADDED.get(said.where.partition(":")[0], set())
    if missing and not said.more:
        yield f"{said.where}: {said.id} lacks {', '.join(sorted(missing))}"
    unknown = said.given - named
    if unknown and not takes_more:
        yield f"{said.where}: {said.id} has no {', '.join(sorted(unknown))}"


def test_no_id_is_in_two_tables():
    assert sum(map(len, TABLES)) == len(WORDS)


def test_the_ids_are_words_in_kebab_case():
    assert [id for id in WORDS if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id)] == []


def test_every_note_has_words_and_all_their_values():
    found = [it for module in modules("kernelgauge", "course", "reference") for it in notes(module)]
    assert len(found) > len(WORDS) / 2
    assert [wrong for said in found for wrong in misfits(said)] == []


@pytest.mark.parametrize(("id", "seen"), symptoms.SEEN.items())
def test_what_is_seen_instead_takes_values_of_the_note(id, seen):
    needed, _, _ = asked(seen)
    assert needed <= asked(id)[0]


def test_notes_that_say_why_are_no_symptoms():
    """Their words begin with it, or are made of words that do."""
    trees = [ast.parse(inspect.getsource(module)) for module in (touching, synchronising)]

    def says_why(node: ast.AST, makers: set[str]) -> bool:
        text = getattr(node, "value", None)
        return getattr(node, "id", "") in makers or str(text).startswith("why: ")

    makers: set[str] = set()
    functions = (it for tree in trees for it in tree.body if isinstance(it, ast.FunctionDef))
    for function in functions:
        if any(says_why(it, makers) for it in ast.walk(function)):
            makers.add(function.name)
    found = {
        key.value
        for tree in trees
        for table in ast.walk(tree)
        if isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True)
        if any(says_why(it, makers) for it in ast.walk(value))
    }
    assert found == symptoms.WHY - {"comes-from", "depends", "overwritten"}


# Strings of kernelgauge that look like ids and are none.
OTHERS = {
    "between-elements": "the beginning of two kinds",
    "out-of-bounds": "the beginning of two kinds",
    "nan-in-memory": "an operation, in Origin",
    "nan-in-masked-lane": "an operation, in Origin",
    "speed-up": "a column",
    "f-string": "advice on a construct, of that name",
    "ptxas-blackwell": "a program",
    "utf-8": "an encoding",
}


def test_every_id_is_used_and_what_looks_like_one_is_one():
    """Also an id that a table of a room holds, and that no call of `note` shows."""
    written = {
        node.value: f"{module.file}:{node.lineno}"
        for module in modules("kernelgauge", "course", "reference/mistakes")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    used = {*written, *symptoms.SEEN.values()}
    assert [id for id in WORDS if id not in used] == []
    alike = {
        it: where
        for it, where in written.items()
        if where.startswith("kernelgauge/") and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", it)
    }
    assert {it: alike[it] for it in alike.keys() - {*WORDS, *KINDS, *OTHERS}} == {}
    assert [it for it in OTHERS if it not in alike] == []


def test_every_fault_is_of_a_kind():
    found = [
        (kind, f"{module.file}:{call.lineno}")
        for module in modules("kernelgauge", "course")
        for call in calls(module.tree)
        if name_of(call.func) == "Fault" and call.args
        for kind in texts(call.args[0])
    ]
    assert found
    assert [it for it in found if it[0] not in KINDS] == []


class Anything:
    """A value of any type, in words."""

    def __format__(self, spec: str) -> str:
        return "it"


def test_every_format_string_can_be_formatted():
    for id, words in WORDS.items():
        if isinstance(words, str):
            assert words.format(**dict.fromkeys(asked(id)[1], Anything())), id


# Reading back

ROOM_NAME = "kernelgauge.words"
# In the room of words there is data too.
DATA = {f"{ROOM_NAME}.fault", f"{ROOM_NAME}.kinds"}
NO_SENTENCE = {"display_path", "KINDS", "ORDER", "PROVEN", "SHOWN", "HEAD", "CAUSE", "REMEDY"}
# What an error or a report says.
TEXTS = {"message", "reason", "longrepr", "longreprtext"}
# What errors are called where they are a parameter.
ERRORS = {"error", "wrong", "verdict", "fault", "raised"}
PATTERNS = {"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
READING = {
    *("startswith", "endswith", "partition", "rpartition", "split", "rsplit"),
    *("find", "rfind", "index", "rindex", "count", "removeprefix", "removesuffix"),
}
SAME_WORDS = {"str", "repr", "list", "tuple", "sorted", "next", "iter", "reversed", "join"}

# Who may, and what it reads.
READERS = {
    ("kernelgauge/kernel.py", "check_or_raises"): "a learner's error, which names the argument",
    ("kernelgauge/core/blame.py", "explain"): "what torch and Triton raise without a GPU",
    ("kernelgauge/subject/guarded_call.py", "_end_worker_if_context_is_dead"): "what CUDA raises",
    ("kernelgauge/subject/guarded_call.py", "_quits_debugger"): "what pytest's debugger raises",
    ("kernelgauge/speed/gpu.py", "ran_out_of_memory"): "what torch's streams and events raise",
    ("course/plugin/pictures.py", "_drawn"): "the first line of any error, to print it",
}


class Reader:
    """Follows sentences of ours through one module: what is made of them, and who reads them.

    A sentence is what a function of the words returns, what an error says (`str(error)`, with
    `error` caught or called so), and the text of a report. What is assigned from a sentence, or
    given to a function of the module, is one too. Reading it is to match it, to search or divide
    it, or to compare it.
    """

    def __init__(self, module: Module):
        self.module, self.functions = module, module.functions
        self.words, self.sayers = set(), set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernelgauge"):
                for it in node.names:
                    name = it.asname or it.name
                    if f"{node.module}.{it.name}" == ROOM_NAME:
                        self.words.add(name)
                    elif node.module.startswith(ROOM_NAME) and node.module not in DATA:
                        self.sayers |= {name} - NO_SENTENCE
        # The names that hold a sentence, by function.
        self.known: set[tuple[str, str]] = set()
        self.found: set[tuple[str, int]] = set()

    def read(self) -> set[tuple[str, int]]:
        """The functions that read a sentence, with the line."""
        known = None
        while known != self.known:
            known = set(self.known)
            self._visit(self.module.tree.body, "")
        return self.found

    def _visit(self, body: list[ast.AST], where: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                inner = node.name if isinstance(node, ast.FunctionDef) else where
                self._visit(node.body, inner)
                continue
            self._take(node, where)
            self._visit(list(ast.iter_child_nodes(node)), where)

    def _take(self, node: ast.AST, where: str) -> None:
        """Learn from one node which names hold sentences, and whether it reads one."""
        if isinstance(node, ast.ExceptHandler) and node.name:
            self.known.add((where, f"str of {node.name}"))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value, where)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._bind(node.target, node.iter, where)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value:
            self._bind(node.target, node.value, where)
        elif isinstance(node, ast.Return) and node.value and self._says(node.value, where):
            self.sayers.add(where)
        elif isinstance(node, ast.Compare):
            signs = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
            sides = [node.left, *node.comparators]
            if any(isinstance(it, signs) for it in node.ops):
                self._note(any(self._says(it, where) for it in sides), node, where)
        elif isinstance(node, ast.Call):
            self._take_call(node, where)

    def _take_call(self, call: ast.Call, where: str) -> None:
        name, given = name_of(call.func), [*call.args, *(it.value for it in call.keywords)]
        on = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(on, ast.Name) and name in ("append", "add", "extend"):
            self._bind(on, call.args[0], where)
        reads = bool(on) and name in READING and self._says(on, where)
        if on and name in PATTERNS:
            reads |= any(self._says(it, where) for it in given)
        self._note(reads, call, where)
        if function := self.functions.get(name):
            names = [it.arg for it in function.args.args]
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
            pairs = [*zip(names, call.args, strict=False)]
            pairs += [(it.arg, it.value) for it in call.keywords]
            for parameter, value in pairs:
                if self._says(value, where):
                    self.known.add((name, parameter))

    def _note(self, reads: bool, node: ast.AST, where: str) -> None:
        if reads:
            self.found.add((where, node.lineno))

    def _bind(self, target: ast.expr, value: ast.expr, where: str) -> None:
        """Let a name hold what is assigned to it, or to which it is added."""
        names = [it.id for it in ast.walk(target) if isinstance(it, ast.Name)]
        if self._says(value, where):
            self.known |= {(where, name) for name in names}
        if self._is_error(value, where):
            self.known |= {(where, f"str of {name}") for name in names}

    def _says(self, node: ast.expr, where: str) -> bool:
        """Whether an expression is a sentence, or holds one."""

        def says(*parts: ast.expr | None) -> bool:
            return any(self._says(part, where) for part in parts if part)

        match node:
            case ast.Name():
                return (where, node.id) in self.known
            case ast.Attribute():
                return node.attr in TEXTS
            case ast.JoinedStr():
                return any(
                    says(it.value) or self._is_error(it.value, where)
                    for it in node.values
                    if isinstance(it, ast.FormattedValue)
                )
            case ast.Call():
                return self._call_says(node, where)
            case ast.Subscript() | ast.Starred() | ast.NamedExpr():
                return says(node.value)
            case ast.BinOp():
                return says(node.left, node.right)
            case ast.IfExp():
                return says(node.body, node.orelse)
            case ast.BoolOp():
                return says(*node.values)
            case ast.List() | ast.Tuple() | ast.Set():
                return says(*node.elts)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return says(node.elt)
        return False

    def _call_says(self, call: ast.Call, where: str) -> bool:
        name, on = name_of(call.func), getattr(call.func, "value", None)
        if isinstance(on, ast.Name) and on.id in self.words:
            return name not in NO_SENTENCE
        if name in self.sayers and (on is None or name_of(on) == "self"):
            return True
        if name in ("str", "repr") and call.args and self._is_error(call.args[0], where):
            return True
        if name in SAME_WORDS and any(self._says(it, where) for it in call.args):
            return True
        # A method of a sentence, such as strip.
        return on is not None and self._says(on, where)

    def _is_error(self, node: ast.expr, where: str) -> bool:
        name = name_of(node)
        return name in ERRORS or (where, f"str of {name}") in self.known


def read_in(source: str) -> list[str]:
    tree = ast.parse(textwrap.dedent(source))
    return [where for where, _ in Reader(Module("kernelgauge/x.py", tree)).read()]


def test_no_room_reads_a_sentence_of_ours():
    found = {
        (module.file, where): f"{module.file}:{line}"
        for module in modules("kernelgauge", "course")
        for where, line in Reader(module).read()
    }
    assert {it: found[it] for it in found.keys() - READERS.keys()} == {}
    assert [it for it in READERS if it not in found] == []


@pytest.mark.parametrize(
    "source",
    [
        """
        from kernelgauge.words import message
        def f(fault):
            return re.search("a load outside", message(fault))
        """,
        """
        from kernelgauge import words
        def f(fault):
            first, *_ = words.message(fault).splitlines()
            return "outside" in first
        """,
        """
        def f(run):
            try:
                run()
            except Wrong as found:
                text = f"{found}".strip()
                return text.startswith("race")
        """,
        """
        def told(wrong):
            return str(wrong)
        def f(wrong):
            return told(wrong) == "race"
        """,
        """
        PATTERN = re.compile("race")
        def f(text):
            return PATTERN.match(text)
        def g(error):
            return f(text=str(error))
        """,
        """
        def f(failures):
            return [it for it in failures if any(a in it.message for a in KNOWN)]
        """,
        """
        def f(error):
            seen = []
            seen.append(error)
            return any("race" in str(it) for it in seen)
        """,
    ],
)
def test_what_reads_a_sentence_is_seen(source):
    assert read_in(source) == ["f"]


@pytest.mark.parametrize(
    "source",
    [
        """
        def f(path, wrong, text):
            if wrong.fault.kind == "race" and path.name.startswith("test_"):
                return [str(wrong), *str(wrong).splitlines()[:3], re.search("error: ", text)]
        """,
        """
        def f(words):
            return words == [] or words.view() in words.rows()
        """,
    ],
)
def test_what_shows_a_sentence_or_reads_the_text_of_others_may(source):
    assert read_in(source) == []


# What is searched for, in the tables


def literals(module: Module) -> Iterator[tuple[str, str]]:
    """What a module searches, matches or compares text with, and its constants, with the line."""
    sought = [it.value for it in module.tree.body if isinstance(it, ast.Assign)]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and name_of(node.func) in {*READING, *PATTERNS, "compile"}:
            sought += node.args
        elif isinstance(node, ast.Compare):
            sought += [node.left, *node.comparators]
    for expression in sought:
        for node in ast.walk(expression):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, f"{module.file}:{node.lineno}"


# What others say too, and compilation/advice.py looks for.
OF_OTHERS = {"must be a power of": "Triton", "is not defined": "Python"}


def test_nothing_that_is_searched_for_stands_in_the_words():
    """Three words or more in a row that a sentence of ours has, too."""
    room = "\n".join(path.read_text() for path in (ROOT / ROOM).glob("*.py"))
    found = {
        where: run
        for module in modules("kernelgauge", "course")
        for text, where in literals(module)
        for run in re.findall(r"[a-zA-Z]+(?: [a-zA-Z]+){2,}", text)
        if run in room and run not in OF_OTHERS
    }
    assert found == {}


def test_a_verdict_is_made_of_a_fault():
    found = [
        f"{module.file}:{call.lineno}"
        for module in modules("kernelgauge", "course", "puzzles")
        for call in calls(module.tree)
        if name_of(call.func) == "Wrong"
        for given in call.args[:1]
        if texts(given) or isinstance(given, (ast.JoinedStr, ast.BinOp))
    ]
    assert found == []
