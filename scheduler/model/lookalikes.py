"""Skeletons of names: two names that a reader takes for one another have one skeleton, whatever their alphabets.

The letters of other alphabets that look like Latin ones, and those of the Latin alphabet that look like its usual ones.

References
----------
.. [1] Unicode Technical Standard #39, "Unicode Security Mechanisms", section 4 (confusable detection): of its data the
   single letters of living alphabets. Here letters alone count, for 1 and l, or 0 and O, are told apart in people's
   names as they always were.
"""

from __future__ import annotations

import unicodedata

# Letters, and in the same order what they look like.
_LATIN = ("ɑɡıȷɩɪᴀʙᴄᴅᴇɢʜᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢǀ", "agijiiabcdeghjklmnoprstuvwyzl")
_CYRILLIC = (
    "аԁеһіӏјкорԛгѕԝхуүѵьсАВЕԌНІӀЈКМОРԚЅТԜХУҮѴЬС", "adehiljkopqrswxyyvbcABEGHIlJKMOPQSTWXYYVbC")
_GREEK = ("αικνορσυγηςϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϜͿ", "aikvopouyncjABEZHIKMNOPTYXFJ")
_ARMENIAN = ("օսոհցզյՕՍՏԼ", "ounhgqjOUSL")
_CHEROKEE = ("ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏴ", "DRTiAJEWMHYGhZbRWSVSLCPKdB")
_LISU = ("ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ", "BPDTGKJCZFMNLSRVHWXYAEIOU")
_COPTIC = ("ⲀⲂⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬⲟⲣⲥ", "ABHIKMNOPCTYXopc")
_LOOKS_LIKE = {
    ord(letter): looks_like
    for letters, latin in (_LATIN, _CYRILLIC, _GREEK, _ARMENIAN, _CHEROKEE, _LISU, _COPTIC)
    for letter, looks_like in zip(letters, latin, strict=True)}


def skeleton(name: str) -> str:
    """The name as it looks in Latin letters, in lower case: names of one skeleton can be taken for one another.

    >>> skeleton("сагӏа") == skeleton("Carla"), skeleton("Иван") == skeleton("Ivan")
    (True, False)
    """
    apart = unicodedata.normalize("NFKD", name).translate(_LOOKS_LIKE)  # a letter with its accent is two
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", apart).casefold())
