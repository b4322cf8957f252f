"""What a wrong result looks like, and which mistake would produce it.

Nothing here decides whether a result is wrong: `kernelgauge.numerics` does. A pattern is reported
only if a computation on the result confirms it, and a mistake only if the reference with that
mistake gives the learner's result. Other cases of the puzzle, which the judge runs for that,
confirm a cause or refute it.

Other rooms use report.describe, mistakes.build_what_if, mistakes.candidates, source.Source,
other_cases.OtherCase, other_cases.Evidence and wrong_result.Mistake. The mistakes of single puzzles
are in reference/mistakes, which uses mistakes.half_precisions and mistakes.named. What is said is
in words.diagnosing.
"""
