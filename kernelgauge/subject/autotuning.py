"""Choose the config of an autotuned launch, in place of a benchmark.

Triton times every config of `@triton.autotune` on the GPU and keeps the fastest. A judge needs each
of them to be right, also without a GPU: inside `with ConfigSweep(i)` every autotuned launch uses
config i. Everything else is as in Autotuner.run: pruning, conflicts, and when each hook runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import triton
from triton.runtime.autotuner import Autotuner, Config

from kernelgauge.core import versions

_original = Autotuner.run

_active: list[ConfigSweep] = []


class ConfigSweep:
    """Make autotuned launches in the body use one config, by its index after pruning.

    index: of the config; beyond the end, the last config is used
    rehearse: run the kernel once before its first launch for a tuning key, as a benchmark does. A
        kernel that adds to its output and has no `reset_to_zero` then gives a wrong result
    restores: what `reset_to_zero` names is put back instead
    count: the largest number of configs among the autotuners that were launched
    declared: how many different configs each autotuned kernel had before pruning
    zeroed: the arguments that `reset_to_zero` names
    used: each kernel that was launched and its config, for messages
    outside_guard: makes the context in which hooks run, such as that of `reset_to_zero`, since they
        compute with torch and subjects may not

    A new ConfigSweep forgets what Triton would remember about a tuning key: its config, and that
    its first call is over. A ConfigSweep that is entered again remembers it.
    """

    def __init__(self, index: int, rehearse: bool = False, restores: bool = False):
        self.index, self.rehearse, self.restores = index, rehearse, restores
        self.count = 0
        self.declared: dict[Callable, int] = {}
        self.zeroed: list[str] = []
        self.used: list[str] = []
        self.outside_guard: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext
        self._tuned: dict[tuple, Config] = {}

    def __enter__(self) -> ConfigSweep:
        _active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _active.remove(self)
        # Who sets it may hold this sweep too, and then the two would keep a call's tensors alive.
        self.outside_guard = contextlib.nullcontext

    @property
    def keys(self) -> int:
        """The number of tuning keys for which a config was chosen."""
        return len(self._tuned)

    def launch(self, tuner: Autotuner, args: tuple, kwargs: dict) -> object:
        """Do what Autotuner.run does, with the config of this sweep.

        Raises ValueError if the config sets a parameter that the caller has set, or if pruning
        leaves no config.
        """
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            key = (tuner, *_tuning_key(tuner, kwargs))
            config = self._tuned.get(key)
            if is_first := config is None:
                config, is_benchmarked = self._choose(tuner, kwargs)
            given = {**kwargs, **config.all_kwargs()}
            if conflicts := sorted(kwargs.keys() & config.kwargs.keys()):
                raise ValueError(
                    f"Conflicting meta-parameters: {', '.join(conflicts)}. "
                    "Make sure that you don't re-define auto-tuned symbols."
                )
            named = {**tuner.nargs, **given}
            if is_first and is_benchmarked:
                self._tune(tuner, config, args, given, named)
            self._tuned[key] = tuner.best_config = config
            if config.pre_hook:
                with self.outside_guard():
                    config.pre_hook(named)
            return tuner.fn.run(*args, **given)
        finally:
            tuner.nargs = None

    def _tune(
        self, tuner: Autotuner, config: Config, args: tuple, given: dict, named: dict
    ) -> None:
        self.zeroed += [name for name in tuner.reset_to_zero if name not in self.zeroed]
        kept = {}
        if self.restores:
            with self.outside_guard():
                kept = {name: named[name].clone() for name in tuner.reset_to_zero}
        if self.rehearse:
            self._benchmark(tuner, config, args, given, named)
        with self.outside_guard():
            tuner.pre_hook(named, reset_only=True)
            for name, value in kept.items():
                named[name].copy_(value)

    def _benchmark(
        self, tuner: Autotuner, config: Config, args: tuple, given: dict, named: dict
    ) -> None:
        with self.outside_guard():
            if config.pre_hook:
                config.pre_hook(named)
            tuner.pre_hook(named)
        failure = None
        try:
            tuner.fn.run(*args, **given)
        except Exception as error:
            failure = error
            raise
        finally:
            with self.outside_guard():
                tuner.post_hook(named, exception=failure)

    def _choose(self, tuner: Autotuner, kwargs: dict) -> tuple[Config, bool]:
        """Return a config, and whether Triton would have run a benchmark to choose it."""
        configs = tuner.configs
        self.declared[tuner.base_fn] = len(set(map(str, configs)))
        if len(configs) > 1:
            configs = tuner.prune_configs(kwargs)
        if not configs:
            name = tuner.base_fn.__name__
            raise ValueError(f"{name}: pruning leaves none of {len(tuner.configs)} configs")
        config = configs[min(self.index, len(configs) - 1)]
        self.count = max(self.count, len(configs))
        if (use := _describe(tuner, config)) not in self.used:
            self.used.append(use)
        return config, len(tuner.configs if _times_a_single_config() else configs) > 1


# For launches in the interpreter outside any sweep.
_default = ConfigSweep(0)


def install() -> None:
    """Patch Triton so that a ConfigSweep decides. Outside one, Triton times the configs on a GPU,
    and the interpreter uses config 0.
    """
    Autotuner.run = _run


def _run(tuner: Autotuner, *args: Any, **kwargs: Any) -> object:
    if _active:
        return _active[-1].launch(tuner, args, kwargs)
    if triton.knobs.runtime.interpret:
        return _default.launch(tuner, args, kwargs)
    return _original(tuner, *args, **kwargs)


def _tuning_key(tuner: Autotuner, kwargs: dict) -> tuple:
    named = {**tuner.nargs, **kwargs}
    values = {name: value for name, value in named.items() if name in tuner.arg_names}
    dtypes = [str(value.dtype) for value in values.values() if hasattr(value, "dtype")]
    return (*(values[name] for name in tuner.keys if name in values), *dtypes)


def _times_a_single_config() -> bool:
    """Return whether Triton benchmarks even if pruning leaves one config, as before 3.8."""
    return versions.TRITON < (3, 8)


def _describe(tuner: Autotuner, config: Config) -> str:
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    settings = ", ".join(f"{name}={value}" for name, value in (config.kwargs | options).items())
    return f"{tuner.base_fn.__name__}({settings})"
