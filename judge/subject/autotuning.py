"""Which of an autotuner's configs a launch uses, when a judge and not a benchmark decides.

Triton times every config of `@triton.autotune` on the GPU and keeps the fastest. A judge wants each
of them to be right, also where there is no GPU: inside `with ConfigSweep(i)` every autotuned launch
uses config i. All else is as in Autotuner.run: pruning, conflicts, and which hook runs when.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import triton
from triton.runtime.autotuner import Autotuner, Config

_original = Autotuner.run

_active: list[ConfigSweep] = []


class ConfigSweep:
    """In the body, autotuned launches use one config, by its number after pruning.

    index: the number; the last config where there are fewer
    rehearse: run the kernel once before its first launch for a tuning key, as a benchmark does: one
        that adds to its output and has no `reset_to_zero` then gives a wrong one
    count: the most configs that an autotuner had that was launched
    used: what was launched, with its config, in words
    outside_guard: makes the context of hooks, `reset_to_zero` among them: they compute with torch,
        which subjects may not

    What Triton remembers of a tuning key (its config, and that its first call is over) is forgotten
    by a new ConfigSweep, and kept when the same one is entered again.
    """

    def __init__(self, index: int, rehearse: bool = False):
        self.index, self.rehearse = index, rehearse
        self.count = 0
        self.used: list[str] = []
        self.outside_guard: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext
        self._tuned: dict[tuple, Config] = {}

    def __enter__(self) -> ConfigSweep:
        _active.append(self)
        return self

    def __exit__(self, *_) -> None:
        _active.remove(self)

    @property
    def keys(self) -> int:
        """For how many tuning keys a config was chosen."""
        return len(self._tuned)

    def launch(self, tuner: Autotuner, args: tuple, kwargs: dict) -> object:
        """Autotuner.run. Raises ValueError if a config sets what the caller has set."""
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
                if self.rehearse:
                    self._benchmark(tuner, config, args, given, named)
                with self.outside_guard():
                    tuner.pre_hook(named, reset_only=True)
            self._tuned[key] = tuner.best_config = config
            if config.pre_hook:
                with self.outside_guard():
                    config.pre_hook(named)
            return tuner.fn.run(*args, **given)
        finally:
            tuner.nargs = None

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
        """A config, and whether Triton would time several to choose it."""
        configs = tuner.configs
        if len(configs) > 1:
            configs = tuner.prune_configs(kwargs)
        if not configs:
            raise ValueError(f"{_name(tuner)}: pruning leaves none of {len(tuner.configs)} configs")
        config = configs[min(self.index, len(configs) - 1)]
        self.count = max(self.count, len(configs))
        if (use := _described(tuner, config)) not in self.used:
            self.used.append(use)
        return config, len(tuner.configs if _times_a_single_one() else configs) > 1


# Launches in the interpreter outside any sweep.
_default = ConfigSweep(0)


def install() -> None:
    """Let ConfigSweep decide in this process. Without one, a GPU decides, or it is config 0."""
    Autotuner.run = _run


def _run(tuner: Autotuner, *args, **kwargs) -> object:
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


def _times_a_single_one() -> bool:
    """Before Triton 3.8 the only config that pruning left was timed too."""
    return tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8)


def _name(tuner: Autotuner) -> str:
    return tuner.base_fn.__name__


def _described(tuner: Autotuner, config: Config) -> str:
    settings = {
        **config.kwargs,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }
    return f"{_name(tuner)}({', '.join(f'{name}={value}' for name, value in settings.items())})"
