"""The icons of the pages, drawn inline so that none arrives late: ``{% icon "search" %}``."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

# 16 by 16, stroked in the colour of the text around them.
_PATHS = {
    "search": '<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3.5 3.5"/>',
    "menu": '<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11"/>',
    "theme": '<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5v11a5.5 5.5 0 0 0 0-11Z" fill="currentcolor"/>',
    "plus": '<path d="M8 3v10M3 8h10"/>',
    "check": '<path d="m3.5 8.5 3 3 6-7"/>',
    "cross": '<path d="m4 4 8 8M12 4l-8 8"/>',
    "warn": '<path d="M8 2.5 14.5 13.5h-13Z"/><path d="M8 6.5v3.2M8 11.6v.1"/>',
    "info": '<circle cx="8" cy="8" r="6"/><path d="M8 7.3v3.6M8 5.1v.1"/>',
    "fit": '<path d="M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10"/>',
    "minus": '<path d="M3 8h10"/>',
    "upload": '<path d="M8 10.5v-8M4.8 5.4 8 2.3l3.2 3.1M2.5 10.5v3h11v-3"/>',
    "out": '<path d="M6 2.5H2.5v11H6M6.5 8h7M10.7 5.2 13.5 8l-2.8 2.8"/>',
    "key": '<circle cx="5" cy="11" r="2.8"/><path d="m7 9 6-6M10.5 5.5l2 2"/>',
    "people": '<circle cx="6" cy="5.5" r="2.5"/><path d="M1.8 13.5c0-2.6 1.8-4 4.2-4s4.2 1.4 4.2 4"/>'
              '<path d="M10.4 3.2a2.5 2.5 0 0 1 0 4.6M11.6 9.8c1.7.4 2.6 1.7 2.6 3.7"/>',
    "keyboard": '<rect x="1.5" y="4" width="13" height="8" rx="1.5"/><path d="M4 6.7h.1M6.7 6.7h.1M9.3 6.7h.1M12 6.7h.1M5 9.5h6"/>',  # noqa: E501
    "lock": '<rect x="3.5" y="7" width="9" height="6.5" rx="1.2"/><path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2"/>',
    "back": '<path d="M9.5 3.5 5 8l4.5 4.5"/>',
    "overview": '<rect x="2" y="2" width="5" height="6.5" rx="1"/><rect x="9" y="2" width="5" height="3.5" rx="1"/>'
                '<rect x="2" y="10.5" width="5" height="3.5" rx="1"/>'
                '<rect x="9" y="7.5" width="5" height="6.5" rx="1"/>',
    "dataflows": '<circle cx="3.5" cy="8" r="1.8"/><circle cx="12.5" cy="3.8" r="1.8"/>'
                 '<circle cx="12.5" cy="12.2" r="1.8"/>'
                 '<path d="M5.2 7.3 10.8 4.6M5.2 8.7l5.6 2.7"/>',
    "reviews": '<path d="M2.5 3h11v8h-6l-3 2.5V11h-2z"/><path d="m5.6 7 1.7 1.7 3-3.4"/>',
    "observe": '<path d="M1.8 8.5h2.7l1.8-5 3 9.5 2-6 .9 1.5h2"/>',
    "settings": '<path d="M2.5 4.5h5M11.5 4.5h2M2.5 11.5h2M8.5 11.5h5"/><circle cx="9.5" cy="4.5" r="1.9"/>'
                '<circle cx="6.5" cy="11.5" r="1.9"/>',
    "help": '<circle cx="8" cy="8" r="6"/>'
            '<path d="M6.3 6.4a1.8 1.8 0 1 1 2.5 1.65c-.5.25-.8.55-.8 1.150M8 11.3v.1"/>',
    "fold": '<rect x="2" y="2.5" width="12" height="11" rx="1.5"/><path d="M6.5 2.5v11"/>',
    "next": '<path d="M6.5 3.5 11 8l-4.5 4.5"/>',
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon that decorates: whoever can't see it loses nothing, since the text or label beside it says the same."""
    return format_html('<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{}</svg>', mark_safe(_PATHS[name]))
