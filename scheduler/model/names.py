"""Plain names: what people call things, as it may stand on pages, in mail, in logs and in text for other programs.

A plain name holds what one can see, and single spaces of one kind between it: no control characters, no ends of lines,
nothing that turns the direction of text, nothing invisible. (Unicode's categories C and Z, and the code points that it
has left out by default, section 5.21 of its standard.)
"""

from __future__ import annotations

import unicodedata

from .errors import WeirError

# Letters and marks of other categories that show nothing: joiners, fillers, variation selectors, a blank of Braille.
_UNSEEN = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF))


# Alphabets that are written together, by what Unicode's names of their letters begin with.
_TOGETHER = frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})


class NameNotPlain(WeirError):
    """A name that is empty, too long, or holds what cannot be seen or turns the text around it."""

    code = "name_not_plain"


def not_plain(name: str) -> int | None:
    """The index of the first character that a plain name cannot hold, from 0; None where there is none.

    >>> not_plain("Données — 東京 #2"), not_plain("traf\u202efic"), not_plain("a\\nb")
    (None, 4, 1)
    """
    return next((index for index, character in enumerate(name) if not _is_plain(character)), None)


def described(character: str) -> str:
    """A character that cannot be shown, by its number and what Unicode calls it."""
    name = unicodedata.name(character, "") or {"C": "control character"}.get(unicodedata.category(character)[0], "")
    return f"U+{ord(character):04X}{f' {name.lower()}' if name else ''}"


def require_plain(name: str, *, what: str, most: int) -> str:
    """The name, where it is plain.

    Parameters
    ----------
    name : str
        The name, without spaces around it.
    what : str
        The noun of what it names, to begin a message with: ``The team's name``.
    most : int
        The largest number of characters.

    Raises
    ------
    NameNotPlain
        It is empty, too long, or holds a character that a plain name cannot; ``place`` says where, from 1.
    """
    if not name or len(name) > most:
        raise NameNotPlain(f"{what} is {'too long' if name else 'empty'}.", remedy=f"Give 1 to {most} characters.")
    if (index := not_plain(name)) is not None:
        raise NameNotPlain(
            f"{what} has {described(name[index])} at character {index + 1}.",
            remedy="Take it out: names hold what can be seen, and single spaces of the usual kind.", place=index + 1)
    return name


def require_one_alphabet(name: str, *, what: str) -> str:
    """The name, where its letters are of one alphabet, or of Latin and those of East Asia.

    A Cyrillic letter in a Latin name makes another name that looks the same. ``what`` as `require_plain` has it.

    Raises
    ------
    NameNotPlain
        Letters of several alphabets are in it; the message names them.
    """
    alphabets = {
        unicodedata.name(character, "").partition(" ")[0] for character in name
        if unicodedata.category(character) in ("Lu", "Ll", "Lt", "Lo")}
    if len(alphabets) > 1 and not alphabets <= _TOGETHER:
        raise NameNotPlain(
            f"{what} mixes letters of several alphabets: {', '.join(sorted(alphabets)).lower()}.",
            remedy="Write it in one alphabet: letters of two may look the same.")
    return name


def folded(name: str) -> str:
    """The name without what case and forms of letters make of it: two names that differ in these alone fold alike.

    >>> folded("ＡNA") == folded("ana")
    True
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def one_line(text: str, *, most: int) -> str:
    """A text as the subject of a mail or a line of a log can have it: what is not plain is a space, and no two follow.

    >>> one_line("Down:\\r\\nBcc: x", most=80)
    'Down: Bcc: x'
    """
    return " ".join("".join(character if _is_plain(character) else " " for character in text).split())[:most]


def _is_plain(character: str) -> bool:
    if character == " ":
        return True
    number = ord(character)
    return unicodedata.category(character)[0] not in "CZ" and not any(
        first <= number <= last for first, last in _UNSEEN)
