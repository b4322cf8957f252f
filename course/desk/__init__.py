"""What stands around a puzzle: its hints, its stub as it came, our solution beside the learner's,
and the pages of the kinds of fault.

Nothing here grades, and nothing here knows pytest: plugin asks and prints the answers. challenge
makes the calls that are compared.

- comparison: of_traffic, of_resources, of_times, of_files, table, difference_of
- faults: FOLDER, path_of, shown, table, title_of
- hints: chapter_of, hints_of, idea_of, lesson_of
- stubs: is_untouched, reset, title_of
- workspace: lay_out, origin_of
"""
