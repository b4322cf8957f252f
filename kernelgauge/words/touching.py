"""What a kernel does with memory: bounds, addresses, races, traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernelgauge.words.common import plain_numbers, show_place
from kernelgauge.words.fault import Place

# The two ways of traffic: what was done to a tensor, and what a line does.
DONE = {"loaded": "read", "stored": "written"}
DOES = {"loaded": "reads", "stored": "writes"}
DO = {"loaded": "read", "stored": "write"}

# How many lines of a kernel, and how many tensors that a launcher allocated, are named.
MAX_NAMED_LINES = 3
MAX_NAMED_TENSORS = 4


def _noun(dim: int, dims: int, count: int) -> str:
    if dims > 2:
        return f"indices along dimension {dim}" if count != 1 else f"index along dimension {dim}"
    word = "element" if dims == 1 else ("row", "column")[dim]
    return word + "s" * (count != 1)


def _index(index: int, dim: int, dims: int) -> str:
    if dims > 2:
        return f"index {index} along dimension {dim}"
    return f"{_noun(dim, dims, 1)} {index}"


def _size(tensor: str, size: int, dim: int, dims: int) -> str:
    if dims > 2:
        return f"{tensor} has size {size} in dimension {dim}"
    return f"{tensor} has {size} {_noun(dim, dims, size)}"


def _wrong_stride(
    variable: str,
    used: int,
    label: str,
    tensor: str,
    strides: tuple[int, ...],
    masked: bool = True,
) -> str:
    called = f" ({label})" if label else ""
    return "the mask is right, the address is not: " * masked + (
        f"each step of {variable} moves by {_elements(used)}{called}, but the strides of {tensor} "
        f"are {strides}"
    )


def _takes_another_stride(
    variable: str, limit: str, meant: str, tensor: str, used: int, taken: str, swapped: bool
) -> str:
    return (
        f"{variable} < {limit} holds for the {meant} of {tensor}, but {variable} moves by "
        f"{_elements(used)}, the stride of its {taken}" + ": are its strides swapped?" * swapped
    )


def _done_by(what: str, do: str, alone: str = "") -> Callable[..., str]:
    """Return the words of an access that some lanes of a tile do, or a single address."""

    def words(lanes: str, **values: object) -> str:
        return what.format(**values) + (f": {lanes} {do}" if lanes else alone)

    return words


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def _loaded(source: str, as_loaded: bool) -> str:
    if not source:
        return ""
    return f", {'as it was' if as_loaded else 'made from what was'} loaded from {source}"


def _below_zero(name: str, low: int, high: int, source: str, as_loaded: bool) -> str:
    value = str(low) if low == high else f"{high} or less"
    return (
        f"{name} is {value}{_loaded(source, as_loaded)}: nothing has a negative index, so leave "
        f"such entries out, with {name} >= 0 or a mask that ends before them, or reject them first"
    )


def _reaches(name: str, index: int, one: bool, source: str, as_loaded: bool, has: str) -> str:
    verb = "is" if one else "reaches"
    return f"{name} {verb} {index}{_loaded(source, as_loaded)}, but {has}"


def _race(
    program: tuple[int, ...],
    verb: str,
    element: str,
    other: tuple[int, ...],
    other_verb: str,
    file: str,
    line: int,
) -> str:
    does, did = (f"atomically {it}" if it == "updates" else it for it in (verb, other_verb))
    too = "also " if verb == other_verb else ""
    return (
        f"race: program {program} {does} {element}, which program {other} {too}{did} at "
        f"{show_place(Place(file, line))}; the programs of a launch may run at the same time, in "
        "no fixed order"
    )


def _threads_meet(program: tuple[int, ...], verb: str, element: str, file: str, line: int) -> str:
    return (
        f"program {program} {verb} {element}, which another of its threads stored at "
        f"{show_place(Place(file, line))}; without a barrier between the two, either may come first"
    )


def _lane(index: Sequence[int]) -> str:
    return str(index[0]) if len(index) == 1 else f"({', '.join(map(str, index))})"


def _with(names: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in names)


def _is_made(index: str, value: int, definition: str, scalars: Sequence[tuple[str, int]]) -> str:
    known = f", with {_with(scalars)}" if scalars else ""
    return f"why: {index} is {value} there; {index} = {definition}{known}"


def _product(index: str, value: int, factor: int, label: str, product: int) -> str:
    times = f"{label} = {factor}" if label and label != str(factor) else str(factor)
    return f"why: {index} = {value} times {times} is {product}, and an int32 ends at 2147483647"


def _another_axis(axis: int, programs: int, other: int) -> str:
    return (
        f"why: the address depends on tl.program_id({other}), which is 0 in every program, and not "
        f"on tl.program_id({axis}): the {programs} programs along axis {axis} have the same one"
    )


def _overlap(index: str, definition: str, length: int, step: int, overlap: int) -> str:
    made = f" ({index} = {definition})" if definition else ""
    return (
        f"why: each program has {length} values of {index}, and the next one begins {step} further"
        f"{made}: neighbours overlap by {overlap}"
    )


def _meet(here: Sequence[tuple[str, int]], there: Sequence[tuple[str, int]]) -> str:
    there_too = f"{_with(there)} in the other one"
    return f"why: {_with(here)} in this program and {there_too} are the same address"


def _leaves(
    index: str,
    tensor: str,
    size: int,
    many: str,
    here: Sequence[tuple[str, int]],
    there: Sequence[tuple[str, int]],
) -> str:
    return f"{_meet(here, there)}: {tensor} has {size} {many}, and {index} runs past them"


def _one_stride(
    names: Sequence[str],
    factor: int,
    tensor: str,
    strides: tuple[int, ...],
    here: Sequence[tuple[str, int]],
    there: Sequence[tuple[str, int]],
) -> str:
    return (
        f"{_meet(here, there)}: a step of {' and one of '.join(names)} each move by "
        f"{_elements(factor)}, but the strides of {tensor} are {strides}"
    )


def _no_stride(
    index: str,
    factor: int,
    label: str,
    tensor: str,
    strides: tuple[int, ...],
    here: Sequence[tuple[str, int]],
    there: Sequence[tuple[str, int]],
) -> str:
    called = f" ({label})" if label else ", without a stride"
    elements = "element" if abs(factor) == 1 else "elements"
    return (
        f"{_meet(here, there)}: each step of {index} moves by {factor} {elements}{called}, but the "
        f"strides of {tensor} are {strides}"
    )


def _raised(error: str, text: str, function: str = "", source: str = "") -> str:
    first, *rest = plain_numbers(f"{error}: {text}").splitlines()
    if not function:
        return "\n".join([first, *rest])
    return "\n".join([f"in {function}: {first}", f"    {source}", *rest])


def _arises(operation: str, file: str, line: int, source: str, infinity: str | None) -> str:
    what = {"nan-in-memory": "NaN in memory", "nan-in-masked-lane": "NaN in a masked lane"}
    text = f"{what.get(operation, operation)} at {show_place(Place(file, line, source=source))}"
    return f"{text}; the infinity is {infinity}" if infinity else text


def _titled(tensor: str) -> str:
    return "the result" if tensor == "result" else tensor


def _above(value: float, limit: float) -> str:
    """Format a number with as many decimals as show it to be above the limit, at least one."""
    for decimals in range(1, 6):
        text = f"{value:.{decimals}f}"
        if float(text) > limit:
            break
    return text


def _below(limit: float, value: float) -> str:
    """Format a budget with as many digits as show it to be below the value, at least three."""
    shown = float(_above(value, limit))
    digits = next((n for n in range(3, 10) if float(f"{limit:.{n}g}") < shown), 10)
    return f"{limit:.{digits}g}"


def _many_launches(measured: int, limit: float, kernels: Sequence[str]) -> str:
    launched = "1 kernel is" if measured == 1 else f"{measured} kernels are"
    return f"{launched} launched ({', '.join(kernels)}), but the budget is {limit:.10g}"


def _moved_often(
    measured: float, limit: float, tensor: str, way: str, lines: Sequence[tuple[str, float]]
) -> str:
    shares = ", ".join(
        f"{call} {DOES[way]} it {_above(times, 0)} times" for call, times in lines[:MAX_NAMED_LINES]
    )
    return (
        f"{_titled(tensor)} is {DONE[way]} {_above(measured, limit)} times, "
        f"but the budget is {_below(limit, measured)} ({shares})"
    )


def _loaded_by_launch(
    measured: float,
    limit: float,
    tensor: str,
    kernel: str,
    launch: int,
    launches: int,
    allowed: Sequence[float],
) -> str:
    return (
        f"{tensor} is read {_above(measured, limit)} times by one launch ({kernel}, launch "
        f"{launch} of {launches}), but the budget is {limit:.10g}: the launches may read "
        f"{tensor} {', '.join(f'{times:.10g}' for times in allowed)} times, in any order"
    )


def _sectors(
    measured: float,
    limit: float,
    tensor: str,
    way: str,
    ratio: float,
    call: str,
    run: float,
    scattered: bool,
) -> str:
    why = f"its contiguous pieces are {run:.0f} bytes long on average"
    if scattered:
        why = "neighbouring lanes must access neighbouring addresses"
    return (
        f"{_titled(tensor)} is {DONE[way]} in sectors of which {100 / ratio:.0f} % is used: "
        f"{_above(ratio, limit)} times the minimum of 32-byte sectors, but the budget is "
        f"{limit:.10g} ({call}): {why}"
    )


def _sectors_beyond_budget(
    measured: float, limit: float, tensor: str, way: str, **more: object
) -> str:
    return (
        f"{_titled(tensor)} is {DONE[way]} in {_above(measured, limit)} times the minimum of "
        f"32-byte sectors, but the budget is {limit:.10g}"
    )


def _distinct(measured: float, limit: float, tensor: str, overlap: bool) -> str:
    return (
        f"the programs together load {tensor} {_above(measured, limit)} times, counting each "
        f"element once per program, but the budget is {limit:.10g}"
        + (": longer tiles overlap less" if overlap else "")
    )


def _moved_in_all(
    measured: float, limit: float, way: str, parts: Sequence[tuple[str, float]]
) -> str:
    listed = ", ".join(f"{_titled(name)} {count:.10g}" for name, count in parts)
    return f"{measured:.10g} elements are {way} in all, but the budget is {limit:.10g} ({listed})"


def _large_tensor(measured: int, limit: int, tensor: str) -> str:
    return (
        f"{_titled(tensor)} of {measured} elements is stored to, but no tensor of more than "
        f"{limit} elements may be"
    )


def _allocated(measured: int, limit: float, tensors: Sequence[str]) -> str:
    more = len(tensors) - MAX_NAMED_TENSORS
    listed = ", ".join(tensors[:MAX_NAMED_TENSORS]) + (f" and {more} more" if more > 0 else "")
    return (
        f"the launcher allocates {measured} bytes beside what it returns, "
        f"but the budget is {limit:.10g} ({listed})"
    )


def _lanes_share(way: str, times: float, line: str) -> str:
    return (
        f"why: {times:.3g} lanes of an access have the same element at {line}: it "
        f"is {DONE[way]} once for each of them"
    )


def _launches_share(way: str, kernels: Sequence[str]) -> str:
    return f"why: {len(kernels)} launches each {DO[way]} it: {', '.join(kernels)}"


def _programs_share(way: str, times: float, axes: Sequence[int], grid: tuple[int, ...]) -> str:
    text = f"why: each element is {DONE[way]} by {times:.3g} programs"
    which = " and ".join(f"the {grid[axis]} along axis {axis}" for axis in axes)
    return f"{text}: of the grid {tuple(grid)}, {which} {DO[way]} the same ones"


def _meet_at(
    way: str, count: int, programs: Sequence[tuple[int, ...]], first: str, last: str
) -> str:
    one, other = programs
    some = first if first == last else f"{first} to {last}"
    many = "1 element is" if count == 1 else f"{count} elements are"
    return (
        f"why: {many} {DONE[way]} by more than one program: {some} by program {tuple(one)} and by "
        f"program {tuple(other)}"
    )


def _repeats(
    way: str,
    program: tuple[int, ...],
    element: str,
    lines: Sequence[str],
    count: int,
    of: int,
    diagonal: bool,
) -> str:
    where = f"at {lines[0]}, turn after turn" if len(lines) == 1 else f"at {' and '.join(lines)}"
    some = f" (as {count} of {of} programs do)" if count < of else ""
    tiles = ": the tiles on the diagonal" if diagonal else ""
    return f"why: program {program} {DOES[way]} {element} more than once, {where}{some}{tiles}"


def _handed_on(tensor: str, kernel: str, line: str, other: str, other_line: str) -> str:
    return f"why: {kernel} hands {tensor} on to {other}: stored at {line}, loaded at {other_line}"


def _row(index: str, definition: str, count: int, nbytes: int) -> str:
    return (
        f"why: along memory the tile has {count} of {index}, {nbytes} bytes, and a sector has 32; "
        f"{index} = {definition}"
    )


def _across(indices: Sequence[tuple[str, int]]) -> str:
    steps = " and ".join(f"one of {index} moves by {factor}" for index, factor in indices)
    return f"why: no step along the tile moves by 1 element: {steps}"


def _few_programs(measured: int, limit: int) -> str:
    many = "1 program does" if measured == 1 else f"{measured} programs do"
    return f"{many} the work, but the spec asks for at least {limit} programs"


def _uneven(measured: float, limit: float) -> str:
    return (
        f"the busiest program does {_above(measured, limit)} times as many multiply-adds as the "
        f"average one, but at most {limit:.10g} times as many are allowed"
    )


def _indices(axis: int, dims: int) -> str:
    if dims == 1:
        return "elements"
    return {dims - 1: "columns", dims - 2: "rows"}.get(axis, f"indices of dimension {axis}")


def _range(
    axis: int, dims: int, first: int, last: int, on: bool, block: str = "", step: int = 1
) -> str:
    if first == last:
        text = f", {_index(first, axis, dims)}" + " (the last)" * on
    else:
        text = f", {_indices(axis, dims)} {first}..{last}" + " (to the end)" * on
    return text + (f", from tile {first // step} on ({block} = {step})" if block else "")


def _never_stored(
    result: str, index: Sequence[int], missing: int, of: int, ranges: Sequence[str]
) -> str:
    element = f"{result.removeprefix('the ')}[{', '.join(map(str, index))}]"
    return (
        f"no program stored {element}: {missing} of {of} element{'s' * (of != 1)} "
        f"{'was' if missing == 1 else 'were'} never written by a kernel{''.join(ranges)}"
    )


def _of_launch(kernel: str, launch: int, launches: int) -> str:
    return f" of {kernel}, launch {launch} of {launches}," if kernel else ""


def _mask_leaves(
    program: tuple[int, ...],
    element: Sequence[int],
    tensor: str,
    file: str,
    line: int,
    count: int,
    of: int,
    kernel: str,
    launch: int,
    launches: int,
) -> str:
    which = _of_launch(kernel, launch, launches)
    at = show_place(Place(file, line))
    some = "" if count == of else f"; {of - count} of the {of} missing ones are in no tile"
    index = ", ".join(map(str, element))
    return (
        f"why: program {program}{which} has {tensor}[{index}] in its tile and masks it off at {at}"
        f"{some}"
    )


def _no_store(
    programs: int, file: str = "", line: int = 0, source: str = "", loops: bool = False
) -> str:
    if not programs:
        return "why: the grid has no programs"
    if not source:
        return "why: no program reaches a store to it"
    place = show_place(Place(file, line, source=source))
    never = "the loop takes no turn" if loops else "the condition never holds"
    return f"why: no program reaches a store to it, since {never} in which it stands: {place}"


def _idle_tiles(
    idle: int,
    programs: int,
    kernel: str,
    launch: int,
    launches: int,
    file: str = "",
    line: int = 0,
    source: str = "",
) -> str:
    which = _of_launch(kernel, launch, launches)
    does, whose, ends = (
        ("stores", "its tile", "it returns")
        if idle == 1
        else ("store", "their tiles", "they return")
    )
    text = (
        f"why: {idle} of the {programs} programs{which} {does} nothing to it, and what is missing "
        f"is in {whose}"
    )
    return f"{text}: {ends} at {show_place(Place(file, line, source=source))}" if source else text


def _no_tile(
    programs: int,
    storing: int,
    tiles: int,
    needed: int,
    sides: Sequence[int],
    ends: Sequence[str],
    begins: Sequence[tuple[int, Sequence[int]]],
    kernel: str,
    launch: int,
    launches: int,
) -> str:
    which = _of_launch(kernel, launch, launches)
    if storing < programs:
        idle = programs - storing
        does = "stores" if idle == 1 else "store"
        done = f"{idle} of the {programs} programs{which} {does} nothing to it"
    elif tiles == storing:
        one = "the only program" if programs == 1 else f"each of the {programs} programs"
        done = f"{one}{which} stores one tile"
    else:
        many = "1 program" if programs == 1 else f"{programs} programs"
        done = f"{many}{which} {'store' if programs > 1 else 'stores'} {tiles} tiles"
    takes = f", and it takes {needed} tiles of {' x '.join(map(str, sides))}"
    if tiles >= needed:
        takes = ", as many as it takes: some lie outside or on one another" if needed else ""
    where = f"; no tile goes beyond {' or '.join(ends)}" if ends else ""
    if len(begins) > 1:
        (number, begin), *others = begins
        where += f"; that of program {number} begins at {[*begin]}"
        where += "".join(f", of {number} at {[*begin]}" for number, begin in others)
    return f"why: they are in no tile, masked off or not: {done}{takes}{where}"


def _short_grid(
    programs: int, axis: int, covered: int, size: int, many: str, block: str, needed: int, at: int
) -> str:
    does = "1 program" if programs == 1 else f"{programs} programs"
    covers = "covers" if programs == 1 else "cover"
    text = (
        f"the grid has {does} along axis {axis}, which {covers} {covered} of {size} {many}: "
        f"triton.cdiv({size}, {block}) is {needed}"
    )
    return text if at < 0 else f"{text}, as along axis {at}: are the axes swapped?"


WORDS: Mapping[str, str | Callable[..., str]] = {
    # Parts of what follows.
    "indices": _noun,
    "index-of-dimension": _index,
    "tensor-has-size": _size,
    "the-index": lambda one: f"the {one}" if one.startswith("index") else f"the {one} index",
    "any-index": "the index",
    "number": "{number}",
    "one-of": lambda names: " or ".join(names),
    # An access that leaves its tensor.
    "access-outside": _done_by(
        "program {program} {verb} {element} but {has}", "are out of bounds", alone=": out of bounds"
    ),
    "access-between-elements": _done_by(
        "program {program} {verb} memory between the elements of {tensor}, near {element}", "do"
    ),
    "access-misaligned": _done_by(
        "program {program} {verb} {size} bytes of {tensor} at an address that is not a multiple of "
        "{size}",
        "do",
    ),
    "access-of-no-tensor": _done_by(
        "program {program} {verb} address {address:#x}, which belongs to no tensor",
        "are out of bounds",
        alone=": out of bounds",
    ),
    # There is nothing to count.
    "one-lane-outside": lambda: "",
    "lanes-outside": "{lanes} of {of} lanes",
    "masked-lanes-outside": "{lanes} of {of} lanes that the mask lets through",
    "pointer-is-wild": (
        "a pointer comes from a tensor argument, or from a data_ptr() loaded from memory"
    ),
    "pointer-is-null": (
        "a pointer comes from a tensor argument, or from a data_ptr() loaded from memory; this one "
        "is null"
    ),
    "pointer-is-misaligned": (
        "a GPU faults on an access that is not aligned to its size; a pointer moves by whole "
        "elements of its own type"
    ),
    "offset-wraps-around": (
        "the offset is 2**32 too small: it passed 2**31, where an int32 wraps around; make a "
        "factor of it int64, as in tl.program_id(0).to(tl.int64), or in offs.to(tl.int64) if a "
        "stride is that large"
    ),
    "tensor-has-gaps": "{tensor} has strides {strides}; what lies between is not part of it",
    # What would keep it inside: the mask.
    "tile-before-tensor": (
        "the whole tile is before {tensor}: its number, from the program id, a loop or memory, is "
        "wrong, or a mask with {variable} >= 0 is missing"
    ),
    "negative-index": "a negative index lies before the tensor: mask with {variable} >= 0",
    "scalar-past-end": "the last {one} is {last}: mask with < {limit}, or skip the access",
    "descriptor-of-another-tensor": (
        "the shape or the strides given to the descriptor are not those of {tensor}: {shape}, "
        "{strides}"
    ),
    "tile-without-mask": (
        "the {many} of this tile run past {limit}; mask with {variable} < {limit}"
    ),
    "tile-has-no-mask": (
        "nothing masks this tile, and it is longer than what is left of {tensor}: mask its index "
        "with the size of the dimension along which it runs"
    ),
    "loop-goes-on": (
        "{loop} is {begun} there, so that the whole tile lies past the end: let the loop of line "
        "{line} take no turn from {limit} on, or mask with {variable} < {limit}"
    ),
    "another-loop-masks": (
        "line {masked} loads such a tile with a mask, and this one has none: if the loop of line "
        "{line} is for whole tiles, let it end a tile earlier; otherwise mask with {variable} < "
        "{limit}"
    ),
    "lanes-take-no-stride": lambda steps, tensor, strides: (
        f"lanes are {' and '.join(map(str, steps))} elements apart along the tile, "
        f"but the strides of {tensor} are {tuple(strides)}"
    ),
    "lanes-are-apart": (
        "each lane is {step} {many} of {tensor} after the one before it; its strides are {strides}"
    ),
    "address-is-shifted": (
        "{variable} < {limit} holds, but the address is {shift} further on than {variable}"
    ),
    "address-has-another-index": (
        "{variable} < {limit} holds, but the address is not that of {variable}"
    ),
    "mask-is-not-transposed": (
        "{variable} runs along axis {axis} of the tile in the mask, and along axis {other} in the "
        "address: where the pointers are transposed, the mask must be too, as in tl.trans(mask)"
    ),
    "mask-without-bound": (
        "the mask lets all {many} of this tile through; it also needs {variable} < {limit}"
    ),
    "index-of-another-size": (
        "the mask compares {variable} with {other} ({value}), but {tensor} ends at {limit} "
        "({size}): either the index or what it is compared with belongs to another dimension"
    ),
    "mask-lets-through": "the mask lets {which} through, but the last one is {last}",
    "mask-is-too-wide": "{through}: compare with < {limit}, not {compared}",
    "mask-compares-with-another-size": (
        "{through} ({other} is {value}): compare {variable} with {limit}"
    ),
    "bounded-by-another-dimension": (
        "the mask compares {variable} with {limit}, which is {value}, but {variable} * {stride} "
        "goes along dimension {dim} of {tensor}, whose size is {size}"
    ),
    "index-past-its-dimension": "{index} is {value} there, but {has}",
    "address-past-end": lambda tensor, shape, strides: (
        "an index of this address is too large, or moves by another stride than its own: the sizes "
        f"of {tensor} are {tuple(shape)}, and its strides {tuple(strides)}"
    ),
    "mask-lets-index-through": "{through}: mask with {variable} < {limit}",
    # The address.
    "flat-index-is-split-wrong": (
        "the mask is right, {variable} < {limit}: what // and % make of {variable}, or a stride, "
        "is wrong; the strides of {tensor} are {strides}"
    ),
    "flat-index-is-not-split": (
        "{variable} < {limit} holds, but {variable} is added as it is, as if {tensor} were "
        "contiguous: its strides are {strides}"
    ),
    "address-is-not-of-masked-index": (
        "the mask bounds {variable}, but the address takes the {many} of {tensor} in turn, and "
        "does not use {variable}"
    ),
    "wrong-stride": _wrong_stride,
    "takes-another-stride": _takes_another_stride,
    "strides-or-limits-are-swapped": lambda variable, limit, meant, tensor, used, taken: (
        f"{variable} < {limit} holds for the {meant} of {tensor}, but {variable} moves by "
        f"{_elements(used)}, the stride of its {taken}: its strides are swapped, or the limits of "
        "the mask"
    ),
    "moves-along-another-dimension": (
        "the tile has moved by {begin} along the {taken} of {tensor}, and the mask, {variable} < "
        "{limit}, counts that along the {meant}: the pointers move by the stride of the {taken}"
    ),
    "mask-compares": "the mask compares {variable} with {limit}, which is {value}, but",
    "mask-exceeds-dimension": "{compares} {has}: compare with that",
    "index-of-another-tensor": (
        "{compares} {tensor} has {size} elements ({other}): index it with what runs up to {other}"
    ),
    "mask-without-start-of-tile": (
        "the tile begins at {begin}, and the mask compares {variable} without that: it must be the "
        "whole index that is less than {limit}"
    ),
    "moves-by-another-stride": lambda scalar, value, tensor, factor, label, strides: (
        f"{scalar} ({value}) moves {tensor} by {_elements(factor)} a step ({label}), but the "
        f"strides of {tensor} are {strides}: the address is wrong, not the mask"
    ),
    "moves-by-another-size": (
        "{scalar} ({value}) moves {tensor} by {factor} ({label}) {many} a step, but there are "
        "{size}: the address is wrong, not the mask"
    ),
    "stride-of-what-is-for-all": (
        "{scalar} is {value}, but {has}: if all share that one, its stride there must be 0"
    ),
    "scalar-exceeds-stride": lambda scalar, value, label, tensor, sizes: (
        f"{scalar} is {value}, and {label} moves along dimensions of {tensor} of size "
        f"{' or '.join(map(str, dict.fromkeys(sizes)))}: the index is wrong, not the mask"
    ),
    "grid-exceeds-tensor": "the grid has {programs} programs along axis {axis}, but {has}:",
    "scalar-exceeds-tensor": "{scalar} is {value}, but {has}:",
    "index-is-to-be-loaded": "{exceeds} is the index to be loaded from {source}?",
    "one-for-each-column": "{exceeds} it has one for each of {size}, not for each row of {rows}",
    "too-many-programs": "{exceeds} launch fewer, or skip what is past the end",
    "scalar-numbers-tiles": (
        "{exceeds} {scalar} is the number of a tile of {block} = {length} ({definition}), and "
        "there are more tiles than that: the index is wrong, not the mask"
    ),
    "scalar-counts-too-far": (
        "{exceeds} the loop of line {line} lets {scalar} count up to {end}, which is {reaches} "
        "there: end it where the tensor ends, if that comes first"
    ),
    "scalar-is-divided-wrong": (
        "{exceeds} the index is wrong, not the mask; check its // and %, and what they divide by"
    ),
    "scalar-is-wrong": "{exceeds} the index is wrong, not the mask; check how it is made",
    # An index that was loaded.
    "loaded-index-below-0": _below_zero,
    "loaded-index-reaches": _reaches,
    "loaded-index-is-count": (
        "{reaches}: one past the last, so it is a count taken for an index, or padding"
    ),
    "loaded-index-is-wrong": (
        "{reaches}: the index is wrong, not the mask; what was loaded numbers something else, or "
        "is padding, which has to be left out"
    ),
    "index-of-loaded-is-wrong": (
        "{reaches}: the index is wrong, not the mask; check how it is made"
    ),
    # Programs that run at the same time.
    "race": _race,
    "threads-meet": _threads_meet,
    "lanes-meet": lambda program, element, lanes, count: (
        f"{count} lanes of program {program} store to {element}, and not the same: lanes "
        f"{' and '.join(map(_lane, lanes))} differ; which of them stays is not defined"
    ),
    "one-lane-an-element": (
        "let only one lane store each element: mask the others off, or choose between them before, "
        "as with tl.max or tl.sum"
    ),
    "place-a-barrier": (
        "put tl.debug_barrier() between the two, which waits for all threads of the program, or "
        "choose the value before the only store, as with tl.where"
    ),
    "sum-in-no-order": (
        "adds to {element}, and so does program {other}: nothing fixes which comes first, and a "
        "sum of floats depends on the order of its terms as soon as there are three; the spec asks "
        "for the same bits on every run"
    ),
    "order-of-programs-matters": (
        "the result depends on the order in which the programs of a launch run"
    ),
    "order-of-threads-matters": (
        "the result depends on the order in which the threads of a program run"
    ),
    "tensors-share-memory": lambda names: f"{' and '.join(names)} share this memory",
    "address-of-no-program": (
        "why: no part of this address depends on tl.program_id({axis}): the {programs} programs "
        "along axis {axis} have the same one"
    ),
    "address-of-another-axis": _another_axis,
    "tiles-overlap": _overlap,
    "turns-overlap": (
        "why: {loop} moves by {step} from turn to turn ({label}), but the {programs} programs "
        "begin {apart} apart, each with as many values of {index}: a turn of all of them takes "
        "{covered}, and turns overlap by {overlap}"
    ),
    "tiles-begin": (
        "why: the tile of program {program} begins at {one} {begin}, and that of program {other}, "
        "which begins at {one} {other_begin}, goes on into it"
    ),
    "mask-ends-too-late": (
        "the mask lets {index} run up to {limit} ({value}) in every tile: let each tile end where "
        "its own part does, here before {one} {begin}"
    ),
    "mask-goes-past-the-loop": (
        "why: {index} is {own} there, but this program's loop in line {line} ends before {end} "
        "({reaches}): the mask compares with {limit} ({value}), and lets the loop's last tile go "
        "on; compare with {end}"
    ),
    "tile-covers-another": (
        "why: the tile of program {program} has all of a tile that program {other} stored in this "
        "line"
    ),
    "begins-among": (
        "why: program {program} begins at element {begin}, among the elements {first} to {end} "
        "that program {other} stores in this line, in several tiles"
    ),
    "tiles-are-the-same": lambda indices: (
        f"why: both programs have the same tile: {' and '.join(indices)} "
        f"{'are' if len(indices) > 1 else 'is'} the same in both, so what turns the number of a "
        "program into a tile gives it twice"
    ),
    "split-alike": lambda name, parts: (
        f"why: {' and '.join(parts)} {'are' if len(parts) > 1 else 'is'} the same for two values "
        f"of {name}: one part must be a quotient, //, and the other the remainder of that division"
    ),
    "split-by-two-numbers": lambda name, parts, step, rest: (
        f"why: {' and '.join(parts)} are the same for two values of {name}: it is divided by "
        f"{step}, and the remainder is that of a division by {rest}"
    ),
    "address-from-memory": lambda lines: (
        f"why: the address is made of what {'lines' if len(lines) > 1 else 'line'} "
        f"{', '.join(map(str, lines))} loaded, and of no program's number: what that "
        "gave leads both programs to one element"
    ),
    "indices-meet": _meet,
    "index-leads-into-another-row": (
        "why: {index} is {value} in this program, but {has}: the address is that of another element"
    ),
    "index-leaves-its-dimension": _leaves,
    "indices-have-one-stride": _one_stride,
    "factor-is-no-stride": _no_stride,
    "index-is-made": _is_made,
    "product-passes-int32": _product,
    "race-of-stores": (
        "let only one program store each element; storing the same value twice is a race too"
    ),
    "race-of-counts": "let only one program store each element, or add with tl.atomic_add",
    "race-of-relaxed-atomics": (
        'an atomic with sem="relaxed" orders nothing around it; the default, "acq_rel", does'
    ),
    "flag-raised-too-early": lambda element, line, reader, writer: (
        f"why: program {writer} raises {element} in line {line} before it stores, and program "
        f"{reader} goes on once that is raised"
    ),
    "raise-it-after-the-store": (
        "raise a flag after all stores that it stands for, with tl.debug_barrier() in between"
    ),
    "flag-of-another": lambda element, line, own, by, reader, writer: (
        f"why: before its load, program {reader} looks at {element} in line {line}, which program "
        f"{by} raises; what it loads is stored by program {writer}, which raises {own}"
    ),
    "flag-before-the-store": lambda element, line, found, by, reader, writer: (
        f"why: program {reader} goes on with {found} in {element}, in line {line}, once program "
        f"{by} has raised that; what it loads is stored by program {writer}, and only later"
    ),
    "wait-for-all-flags": (
        "let a program wait until each program that stores what it loads has raised its flag"
    ),
    "wait-for-its-flag": "let a program wait for the flag of the program that stores what it loads",
    "flag-set-from-the-start": lambda element, line, found, reader, writer: (
        f"why: program {reader} finds {found} in {element} in line {line}, though no program of "
        "this launch has raised it yet: it was not 0 when the launch began"
    ),
    "zero-flags-each-time": (
        "let each launch begin with flags of 0: torch.zeros, in each call and for each launch"
    ),
    "flag-not-awaited": lambda element, line, found, reader, writer: (
        f"why: program {reader} finds {found} in {element} in line {line}, which nobody has raised "
        "yet, and goes on"
    ),
    "flag-ignored": lambda element, line, reader, writer: (
        f"why: program {writer} raises {element} in line {line} once it has stored, but program "
        f"{reader} looks at no flag before its load"
    ),
    "wait-in-a-loop": "ask again in a while loop until the flag is raised",
    "race-with-atomic": (
        "use an atomic in both places, or move one of the two into a launch of its own; within a "
        "launch, only an atomic that both programs execute in between orders them"
    ),
    "race-of-load-and-store": lambda counts: (
        "to add up in one element, use tl.atomic_add; otherwise "
        * counts
        + "store to another tensor than the one that is read, or split the work into two launches "
        "(within one, only an atomic that both programs execute orders them)"
    ),
    "tile-number-is-not-first-index": (
        "tiles of {length} {many} overlap, and one begins at {one} {begin}: the number of a tile "
        "is taken for its first {one}"
    ),
    "waits-forever": (
        "program {program} waits here forever: every other program has ended or is waiting, and "
        "none of them stored what this one waits for"
    ),
    "waits-for-later": (
        "program {program} waits here forever: a GPU starts programs in their order, and all that "
        "fit on it at once wait like this one; {begun} have begun, and what they wait for is "
        "the business of the {late} that begin when others end"
    ),
    "wait-for-earlier-programs": (
        "let programs wait only for those with smaller numbers, or launch no more programs than "
        "the GPU has multiprocessors"
    ),
    "release-every-lock": (
        "release every lock that you take, and let no two programs wait for each other"
    ),
    # Contents.
    "changed-outside-kernel": lambda tensor, element: (
        f"{tensor} was written outside a kernel: "
        f"{f'its element {element}' if element else 'it'} changed, but no kernel stored to it"
    ),
    "compute-in-kernel": "compute in the kernel, and store with tl.store",
    "atomic-on-unset": (
        "updates elements that nothing has initialized: torch.empty leaves whatever was in memory"
    ),
    "set-before-atomics": (
        "allocate what atomics add to with torch.zeros, or set it in a kernel that is launched "
        "before"
    ),
    "never-stored": _never_stored,
    "programs-store-too-few": (
        "all programs together store at most {room} of the {of} elements of {result}, if the first "
        "or the last one stores the most: the grid, or a loop over the tiles, ends too early"
    ),
    "few-programs-store": (
        "{storing} of the {ran} programs that were tried store to {result}, at both ends of the "
        "grid and in between; all store too little of it if they are like these: does a condition "
        "end them?"
    ),
    "indices-along-axis": _indices,
    "range-never-stored": _range,
    "mask-leaves-out": _mask_leaves,
    "no-tile-has-them": _no_tile,
    "tiles-end": lambda last, axis, dims: (
        f"{_indices(axis, dims).removesuffix('s')} {last}"
        if axis >= dims - 2
        else f"index {last} of dimension {axis}"
    ),
    "no-store-to-result": _no_store,
    "grid-of-too-few": (
        "let the grid have a program for each tile (triton.cdiv rounds up), or let each program "
        "loop over several"
    ),
    "row-of-a-reduction": (
        "each program reduces what it has loaded: if that has to be the whole row, let a tile "
        "cover the row (triton.next_power_of_2 rounds up), or loop over it; if not, let the grid "
        "have a program for each tile"
    ),
    "lanes-lie-apart": lambda step, axis, dims: (
        f"why: they lie between the lanes: each lane is {step} {_indices(axis, dims)} after the "
        "one before it, in every program"
    ),
    "lanes-leave-gaps": (
        "let each lane take the element after that of the lane before (an offset counts elements, "
        "not bytes), or store what lies between"
    ),
    "launched-with-grids": lambda grids: f"launched with a grid of {' and '.join(map(str, grids))}",
    "grid-axes-are-swapped": lambda given, needed, one, other: (
        f"with a grid of {tuple(needed)} in place of {tuple(given)} the tiles have every element: "
        f"its axes are exchanged, or tl.program_id({one}) and tl.program_id({other}) are"
    ),
    "tiles-of-idle-programs": _idle_tiles,
    "first-size-for-all": (
        "{label} is {first}, the first size of {tensor}: {tensor}.numel() is {numel}, and there is "
        "a part of the result for each"
    ),
    "mask-of-store": "the mask of the store leaves them out",
    "store-in-every-program": (
        "the programs that store nothing to it have tiles, too: let them store what belongs there, "
        "such as zeros, or have the launcher allocate the result with it"
    ),
    "loop-to-the-end": (
        "the loop ends before its first turn here: let it go on to the last element, and mask what "
        "is beyond it"
    ),
    "tile-numbers-of-nobody": (
        "some tiles belong to no program: what turns a program's number into a tile leaves them out"
    ),
    "tiles-of-nobody": (
        "some tiles belong to no program: a loop over tiles ends too early or takes too large "
        "steps, or what turns a number into a tile leaves them out"
    ),
    "loop-over-tiles": (
        "the grid has one program for each multiprocessor: each must loop over tiles, in steps of "
        "tl.num_programs(0), to the last one"
    ),
    "grid-or-mask": "is the grid large enough, and does the mask let every element through?",
    "grid-lacks-dimension": "does the grid have a program for each of the {size} {many}?",
    "grid-is-short": _short_grid,
    "nonfinite-arises": _arises,
    # What a kernel raises, and its grid.
    "raised-in-kernel": _raised,
    "grid-is-no-tuple": ("the grid of {kernel} is {given}: it must be a tuple of 1 to 3 integers"),
    "grid-of-no-integers": "the grid of {kernel} is {given}: its sizes must be integers",
    "grid-is-negative": "the grid of {kernel} is {given}: a size cannot be negative",
    "grid-is-too-large": (
        "the grid of {kernel} is {given}: a GPU takes at most {limit} programs along axis {axis}"
    ),
    "round-up-grid": "triton.cdiv(n, BLOCK) rounds up to an integer",
    "split-grid": "put the largest number first, or split axis 0 into two with // and %",
    "no-multiple": "{value} is not a multiple of {factor}, which tl.multiple_of promises",
    "no-multiple-of-bytes": (
        "the address is {rest} bytes past a multiple of {factor}, which tl.multiple_of promises of "
        "pointers, in bytes"
    ),
    "not-contiguous-values": (
        "{value} is followed by {next}, where tl.max_contiguous promises runs of {length} values "
        "that each grow by 1"
    ),
    "not-constant-values": (
        "{value} is followed by {next}, where tl.max_constancy promises runs of {length} equal "
        "values"
    ),
    "assumption-fails": "what tl.assume promises is False here",
    "promise-what-holds": (
        "promise what holds for every call, and check it in the launcher where it depends on the "
        "arguments; a compiled kernel relies on it and does not check"
    ),
    "integer-overflow": (
        "{left} {sign} {right} = {result} does not fit {dtype}: {count} of {of} values overflow"
    ),
    "wrong-beyond-32-bits": "goes wrong where offsets pass 2**31",
    "convert-operand": (
        "make an operand of this int64 before, as in pid = tl.program_id(0).to(tl.int64): "
        "converting the result, or what is computed from it, comes too late"
    ),
    # Budgets.
    "too-many-launches": _many_launches,
    "moved-too-often": _moved_often,
    "loaded-too-often-by-launch": _loaded_by_launch,
    "sectors-mostly-unused": _sectors,
    "sectors-beyond-budget": _sectors_beyond_budget,
    "grid-too-large": "a launch has {measured} programs, but the budget is {limit:.10g}",
    "too-few-programs": _few_programs,
    "uneven-work": _uneven,
    "idle-programs": lambda measured, of, limit: (
        f"{measured} of {of} programs neither load nor store anything, but "
        f"{f'at most {limit}' if limit else 'none'} may be idle"
    ),
    "grid-counts-blocks": lambda kernel, programs, size, block, needed: (
        f"why: the grid of {kernel} has {programs} programs"
        + ", and a grid counts blocks, not what they hold" * (programs == size)
        + f": triton.cdiv({size}, {block}) is {needed}"
    ),
    "programs-load-the-same": _distinct,
    "too-much-in-all": _moved_in_all,
    "too-large-a-tensor": _large_tensor,
    "too-many-multiply-adds": (
        "tl.dot does {measured} multiply-adds, but the budget is {limit:.10g}"
    ),
    "too-much-allocated": _allocated,
    "too-much-scratch": (
        "{measured:.10g} elements are stored to or loaded from memory that the launcher allocated "
        "besides the result, but the budget is {limit:.10g}: what kernels hand on through memory "
        "is traffic too"
    ),
    "loads-too-much": (
        "why: no element is loaded twice, so the loads take what the result does not need: their "
        "masks must leave it out, since tl.where after a load saves no traffic"
    ),
    "lanes-share-elements": _lanes_share,
    "launches-share-elements": _launches_share,
    "programs-share-elements": _programs_share,
    "programs-meet-at-elements": _meet_at,
    "program-repeats-elements": _repeats,
    "tensor-handed-on": _handed_on,
    "row-of-a-tile": _row,
    "tile-across-memory": _across,
    "skip-unused-tiles": (
        "whole tiles are loaded and multiplied of which nothing is used: let the loop begin and "
        "end where the mask does, and a program of which nothing is used return at once"
    ),
    "keep-what-was-loaded": (
        "{call} loads what was loaded before: keep it, or do in one pass what takes two"
    ),
    "larger-tiles": (
        "every tile of the result that needs {tensor} loads it again: larger tiles of the result "
        "share more of it"
    ),
}
