"""The notebook: as shipped it grades the stub, and a kernel in its place is graded and drawn."""

from __future__ import annotations

import os
import re
import shutil
from importlib.util import find_spec

import pytest

from course.desk.stubs import STUBS
from course.paths import ROOT, SOLUTIONS

pytestmark = [pytest.mark.commands, pytest.mark.proof]

NOTEBOOK = ROOT / "docs" / "first_kernel.ipynb"
WRITE = "%%writefile notebook_work/01_pointwise/vector_add.py\n"


def code_of(path) -> str:
    """Return what stands below the spec of a puzzle's file."""
    return path.read_text().partition('\n"""\n')[2].strip("\n")


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Run all cells in a clone; return them by their id. The first error of a cell is raised."""
    if missing := [name for name in ("nbclient", "ipykernel") if find_spec(name) is None]:
        reason = f"no {missing[0]}: pip install -c constraints.txt -e '.[notebook]'"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    import nbformat
    from nbclient import NotebookClient

    clone = tmp_path / "clone"
    unneeded = shutil.ignore_patterns(".*", "tests", "build", "__pycache__", "notebook_work")
    shutil.copytree(ROOT, clone, ignore=unneeded)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # The notebook runs pytest itself, for which this one is not there.
    for variable in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(variable)

    def run(kernel: str = "") -> dict[str, dict]:
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        cells = {cell.id: cell for cell in notebook.cells}
        if kernel:
            cells["kernel"].source = WRITE + kernel
        where = {"metadata": {"path": str(clone / "docs")}}
        NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
        assert (clone / "notebook_work/01_pointwise/vector_add.py").read_text()
        for name in ("01_pointwise/vector_add.py", "01_pointwise/vector_copy.py"):
            assert (clone / "puzzles" / name).read_bytes() == (STUBS / name).read_bytes()
        return cells

    return run


def printed(cell: dict) -> str:
    """Return what a cell printed, without its colours."""
    text = "".join(output.get("text", "") for output in cell["outputs"])
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_as_shipped_it_has_the_stub_and_no_output():
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell.id for cell in code if cell.outputs or cell.execution_count]
    kernel = next(cell for cell in code if cell.id == "kernel")
    assert kernel.source == WRITE + code_of(STUBS / "01_pointwise" / "vector_add.py")


def test_as_shipped_it_says_what_is_not_started(execute):
    cells = execute()
    assert printed(cells["spec"]).startswith("01.4  Vector addition")
    assert "01_pointwise/vector_add  not started" in printed(cells["grade"])
    assert not [output for output in cells["picture"]["outputs"] if "data" in output]


def test_a_kernel_in_its_place_is_solved_and_drawn(execute):
    cells = execute(code_of(SOLUTIONS / "01_pointwise" / "vector_add.py"))
    assert "vector_add is solved." in printed(cells["grade"])
    drawn = [it["data"] for it in cells["picture"]["outputs"] if "data" in it]
    assert any("Which program touches which" in it.get("text/markdown", "") for it in drawn)
    assert any("image/svg+xml" in it for it in drawn)
