"""Results of the puzzles of chapter 02 with one step done wrong."""


def triu(x, diagonal, blocks):
    yield "row and column are swapped in the comparison", (x.tril(-diagonal),)
    yield "the lower triangle is kept instead of the upper", (x.tril(diagonal),)


def outer_add(x, y, blocks):
    yield "x and y are multiplied instead of added", (x[:, None] * y,)
