"""Guards: conditions over events and time that say which alternate of an element is on, decided in values.

They have no clock: time comes with the events. Imports the model, history's points and sqlglot. Read ``guard_values``
first, then ``guard_reading`` (the language) and ``element_watch`` (its evaluation); docs/guards.md is for people.
"""
