"""What the puzzles of chapter 02 give with one step done wrong."""


def triu(x, diagonal, blocks):
    yield "row and column the wrong way round in the comparison", (x.tril(-diagonal),)
    yield "the lower triangle in place of the upper", (x.tril(diagonal),)


def outer_add(x, y, blocks):
    yield "a product in place of a sum", (x[:, None] * y,)
