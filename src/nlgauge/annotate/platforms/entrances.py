"""From which platforms raters may come to a study, checked before anybody is sent there."""

from __future__ import annotations

from pathlib import Path

from nlgauge.annotate.database.records import Study
from nlgauge.annotate.pages.security import MTURK_POST_BACK, AppSettings, allows, post_back_origin
from nlgauge.annotate.pages.signing import entrance_address
from nlgauge.annotate.settings import CROWDS, PLATFORM_ID, Asking, Platform
from nlgauge.errors import DataError, OptionError, argument


def check_address(url: str) -> None:
    """An error where the site cannot be reached by this address."""
    AppSettings(base_url=url)


def require_allowed(study: Study, platform: Platform) -> None:
    """An error where the site would refuse everybody who comes from there."""
    if study.state == "closed":
        raise OptionError(f"study '{study.name}' is closed; expected an open one: nobody gets units of it any more")
    if platform not in study.settings.platforms:
        found = f"takes raters from {' and '.join(study.settings.platforms)} only"
        raise OptionError(
            f"study '{study.name}' {found}; expected {platform}: make a study with --platform {platform}",
            option="platforms",
        )
    if not allows(study, platform):
        needed = {"mturk": "post_back_url", "prolific": "completion_code"}[platform]
        raise OptionError(f"study '{study.name}' has no {argument(needed)}; expected one: make the study with it")


def entrance(study: Study, platform: Platform, url: str, secret: str) -> str:
    """The address that a platform opens; an error where the site could not be reached, or would refuse everybody."""
    check_address(url)
    require_allowed(study, platform)
    return entrance_address(url, study.name, platform, secret)


def check_platforms(asking: Asking) -> None:
    """Refuse platforms from which nobody could come in, or get paid."""
    if asking.post_back_url and post_back_origin(asking.post_back_url) is None:
        raise OptionError(
            f"{argument('post_back_url', asking.post_back_url[:80])}; expected an address at "
            f"{' or '.join(MTURK_POST_BACK)}"
        )
    named = asking.platforms != Asking.platforms
    if named and "prolific" in asking.platforms and not asking.completion_code:
        raise OptionError(
            f"{argument('platforms', 'prolific')} without {argument('completion_code')}; expected the code that "
            "Prolific asks for"
        )


def read_ids(path: str, asking: Asking) -> list[str]:
    """The ids of a file, one per line, each once; refused where nobody comes from a platform."""
    if not set(CROWDS) & set(asking.platforms):
        raise OptionError(f"{argument('ids', path)} without a platform; expected {' or '.join(CROWDS)}", option="ids")
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise DataError(f"{reason}; expected a text file with an id per line", file=path, option="ids") from error
    for number, line in enumerate(lines, 1):
        if line.strip() and not PLATFORM_ID.fullmatch(line.strip()):
            message = f"found '{line.strip()[:60]}'; expected an id of letters, digits, - and _"
            raise DataError(message, file=path, line=number, option="ids")
    if not (ids := [line.strip() for line in lines if line.strip()]):
        raise DataError("found no id; expected one per line", file=path, option="ids")
    return list(dict.fromkeys(ids))
