"""`./weir bench migration`: schemes of moving queries, side by side (paper [4], section 5.2).

Word count over real text runs as lanes of two bundles each; again and again some bundles go to other slots, and the
output's rate, second by second, shows what that costs. Imports the
engine; nothing imports it but the command. Read ``schemes.py`` first.
"""
