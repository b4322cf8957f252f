"""Proof that the tests reject what is wrong and accept what is right.

A puzzle's own tests run in this process, on mutants of our solution or on other people's answers.
Nothing else in judge/ uses it; the tests do.

- runner: Case, cases_of, module_of, graded, first_fault
- mutants: Mutant, read
"""
