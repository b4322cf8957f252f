"""The process that compiles prints nothing, keeps to its time, and is replaced when it dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import triton

from kernelgauge.compilation import process
from kernelgauge.core import versions
from tests import kernels_to_compile as kernels
from tests.compiling import (
    compiled,
    launch_from,
    launch_of,
    load_kernels,
    pointwise,
    rejection,
    slow_matmul,
    x,
    y,
)


@pytest.fixture
def forgetful(monkeypatch):
    """Forget the answers that earlier tests received."""
    monkeypatch.setattr(process, "_answers", {})


def test_output_of_a_module_and_of_the_compiler_is_not_printed(tmp_path, capfd):
    prints = """
        import os
        import sys
        print("printed at import")
        os.write(1, b"written at import" * 10000)
        print("/tmp/x.py:1:2: error: written at import", file=sys.stderr)
    """
    body = 'tl.static_print("printed by the compiler")\ntl.store(x_ptr, {})'
    right = launch_from(tmp_path, body.format("1.0"), prints, "right")
    wrong = launch_from(tmp_path, body.format("unknown"), prints, "wrong")
    capfd.readouterr()
    process.stop()
    assert compiled(right)
    rejection(wrong, match="unknown is not defined")
    assert capfd.readouterr() == ("", "")


def test_a_module_that_needs_the_interpreter(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    above = 'import os\n\nos.environ["TRITON_INTERPRET"]\n'
    launch = launch_from(tmp_path, "tl.store(x_ptr, 1.0)", above)
    message = rejection(launch, match="import without TRITON_INTERPRET raised KeyError")
    assert re.match(r".*kernels.py:8  kernel", message)


def test_a_kernel_that_is_made_at_launch(tmp_path):
    source = """
        def make():
            @triton.jit
            def kernel(x_ptr):
                tl.store(x_ptr, 1.0)
            return kernel
    """
    launch = launch_of(load_kernels(tmp_path, source).make(), {"x_ptr": x})
    rejection(launch, match="define it at the top level of the file")


def test_a_file_that_changed_is_compiled_anew(tmp_path):
    launch = launch_from(tmp_path, "tl.store(x_ptr, 1.0)")
    compiled(launch)
    path = tmp_path / "kernels.py"
    path.write_text(path.read_text().replace("1.0", "unknown"))
    os.utime(path, (1, 1))
    rejection(launch, match="unknown is not defined")


@pytest.mark.proof
def test_time_limit_ends_the_compilation_and_not_the_judge(forgetful):
    message = rejection(slow_matmul(), targets=("sm_80", "sm_90"), time_limit=1.0)
    told = r"did not finish compiling within 1 s for sm_80 \(A100\)\n"
    line = int(re.match(rf".*kernels_to_compile.py:(\d+)  matmul {told}", message)[1])
    assert "def matmul" in Path(kernels.__file__).read_text().splitlines()[line - 1]
    assert "ieee" in message
    assert compiled(pointwise())


def test_what_takes_too_long_for_one_gpu_is_not_compiled_for_others(forgetful):
    options = {"lowered": False, "machine_code": False, "beside": ("sm_90", True)}
    message = rejection(slow_matmul(), time_limit=1.0, **options)
    assert "sm_90" in message
    assert "sm_80" not in message


def test_time_limit_of_the_test_counts_too(monkeypatch, forgetful):
    monkeypatch.setattr(signal, "getitimer", lambda which: (3.5, 0.0))
    limit = r"within 2 s for sm_80 \(A100\)\n.*\n.*--time-limit SECONDS"
    assert "smaller tiles" not in rejection(slow_matmul(), match=limit)


@pytest.mark.proof
def test_a_compiler_that_dies_is_named_and_replaced(forgetful):
    victim = process._current().process.pid
    threading.Timer(0.7, os.kill, (victim, signal.SIGKILL)).start()
    message = rejection(slow_matmul(), match=r"crashed the compiler itself \(SIGKILL\) for sm_80")
    assert f"a bug in Triton {triton.__version__}" in message
    assert compiled(pointwise())
    assert process._worker.process.pid != victim


@pytest.mark.proof
@pytest.mark.skipif(versions.TRITON >= (3, 9), reason="Triton 3.9 compiles it")
def test_a_crash_that_triton_catches_is_named_and_the_compiler_replaced(forgetful):
    arguments = {"x_ptr": x, "y_ptr": y, "n": 1000, "ROWS": 4, "BLOCK": 1024}
    message = rejection(
        launch_of(kernels.scan_and_sum, arguments),
        match="scan_and_sum crashed the compiler itself for sm_80",
    )
    assert not process._worker
    part = r"TritonGPUOptimizeThreadLocality, OptimizeThreadLocality.cpp:\d+: Assertion `"
    assert re.search(part, message)
    assert compiled(pointwise())


@pytest.mark.proof
def test_an_interrupted_check_leaves_no_answer_behind(forgetful):
    class Interrupted(BaseException):
        pass

    def interrupt(signum, frame):
        raise Interrupted

    process._current()
    before = signal.signal(signal.SIGUSR1, interrupt)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with pytest.raises(Interrupted):
            compiled(slow_matmul())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [one.kernel for one in compiled(pointwise())] == ["pointwise"]


@pytest.mark.proof
def test_a_forked_process_answers_without_the_interpreter(tmp_path):
    script = textwrap.dedent("""
        import os, sys
        os.environ["TRITON_INTERPRET"] = "1"
        from kernelgauge.compilation import process
        process.fork_early()
        early = process._worker.process.pid
        from tests.compiling import compiled, pointwise
        print("printed by the parent")
        assert compiled(pointwise())
        assert process._worker.process.pid == early and process._worker.process.poll() is None
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "printed by the parent\n", "")


@pytest.mark.proof
def test_a_fork_borrows_a_compiler_that_its_parent_has_warmed(tmp_path):
    """One fork after the other; what kills a borrowed one is named, and the lender lives."""
    script = textwrap.dedent("""
        import os, signal, sys, threading
        os.environ["TRITON_INTERPRET"] = "1"
        from kernelgauge.compilation import process
        process.fork_early()
        from tests.compiling import compiled, pointwise, rejection, slow_matmul
        process.warm_up()
        lender = process._worker.process.pid
        for _ in range(2):
            fork = os.fork()
            if not fork:
                process.borrow()
                borrowed = process._worker.process
                assert compiled(pointwise()) and isinstance(process._worker.process, process.Lent)
                threading.Timer(0.3, os.kill, (borrowed.pid, signal.SIGKILL)).start()
                rejection(slow_matmul(), match=r"crashed the compiler itself \\(SIGKILL\\)")
                assert borrowed.poll() == -signal.SIGKILL
                os._exit(0)
            assert os.waitpid(fork, 0)[1] == 0
        assert process._worker.process.pid == lender and process._worker.alive()
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.proof
@pytest.mark.parametrize("how", ["started", "forked"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "compiling"])
def test_the_compilers_process_dies_with_its_parent(busy, how, tmp_path):
    hangs = tmp_path / "hangs.py"
    hangs.write_text("while True:\n    pass\n")
    script = textwrap.dedent(f"""
        import sys, time
        from kernelgauge.compilation import process
        if {how == "forked"}:
            process.fork_early()
        worker = process._current()
        print(worker.process.pid, flush=True)
        if {busy}:
            worker.connection.send({{"subject": "{hangs}"}})
        time.sleep(100)
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 5
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
