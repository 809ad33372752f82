"""What a handover costs an output, and what it costs others in the slots that it is between: `./weir bench handover`.

Imports the engine and the benches beside it. Read ``measuring.py`` first: it says what is measured when.
"""
