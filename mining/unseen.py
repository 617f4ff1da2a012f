"""Characters that change a text's code points but nothing that a reader reads.

Soft hyphens, zero-width and direction marks, variation selectors and fillers are invisible; the
Arabic tatweel only stretches a word, and Arabic vowel signs and Hebrew points are left out of most
texts. An encoder that looked at them would put a text far from its own copy without them. They are
left out wherever a text is cut into tokens: words and n-grams in `tokenizers._types`, pieces by the
model's own rules, to which `normaliser` adds them. P-SP models are the exception: they read as the
code published with them does.

Sources: Unicode's property ``Default_Ignorable_Code_Point`` (assigned characters only), interlinear
annotation marks (U+FFF9 to U+FFFB), and for the signs the Unicode Standard, sections 9.1 and 9.2
(points and vowel marks). Hamza and madda above (U+0653 to U+0655) are parts of letters and stay.
"""

from __future__ import annotations

import re

READING = 2
"""Raised when texts are read differently: vectors and ids of an earlier reading are not mixed with
those of this one. 1 left the characters below in the text."""

_RANGES = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x0591, 0x05BD),  # Hebrew accents and points; maqaf, paseq and sof pasuq are punctuation
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    (0x0610, 0x061A),  # Arabic honorifics and Koranic signs
    (0x061C, 0x061C),  # Arabic letter mark
    (0x0640, 0x0640),  # tatweel
    (0x064B, 0x0652),  # fathatan to sukun
    (0x0670, 0x0670),  # superscript alef
    (0x06D6, 0x06DC),  # Koranic annotation signs
    (0x06DF, 0x06E4),
    (0x06E7, 0x06E8),
    (0x06EA, 0x06ED),
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x200B, 0x200F),  # zero-width space and joiners, marks of direction
    (0x202A, 0x202E),  # embeddings of direction
    (0x2060, 0x2064),  # word joiner, invisible operators
    (0x2066, 0x206F),  # isolates of direction, deprecated format characters
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # zero-width no-break space, byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF9, 0xFFFB),  # interlinear annotation
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0001, 0xE0001),  # language tag
    (0xE0020, 0xE007F),  # tags
    (0xE0100, 0xE01EF),  # variation selectors supplement
)
UNSEEN = tuple(chr(point) for first, last in _RANGES for point in range(first, last + 1))
"""The characters that are left out, ascending."""
_CLASS = "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "]+"
without_unseen = re.compile(_CLASS).sub
"""``without_unseen("", text)``: the text without them."""


def _in_utf8() -> re.Pattern[bytes]:
    """Finds them in UTF-8: the first bytes once, then a class of last ones."""
    lasts: dict[bytes, bytes] = {}
    for character in UNSEEN:
        *first, last = character.encode()
        lasts[bytes(first)] = lasts.get(bytes(first), b"") + bytes([last])
    return re.compile(b"|".join(re.escape(first) + b"[" + re.escape(last) + b"]" for first, last in lasts.items()))


UNSEEN_BYTES = _in_utf8()
