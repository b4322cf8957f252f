"""What stands around a puzzle: its hints, its stub as it came, our solution beside the learner's.

Nothing here grades, and nothing here knows pytest: plugin asks, and prints the answers.

- hints: hints_of, idea_of, lesson_of
- stubs: is_untouched, reset
"""
