"""What a run found, as one HTML file without network, or as JSON.

Nothing here grades or knows pytest: plugin fills in a report, and this room keeps or draws it.

- report: Report and its parts, save, load
- html: write
"""
