"""What the site signs: rater links, entrances from crowd platforms, cookies and tokens against forged posts.

Everything is signed with one secret (itsdangerous, HMAC), each purpose under a salt of its own, so that a token made
for one purpose is worth nothing for another. Times are the server's.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec
from itsdangerous import BadSignature, Signer, URLSafeSerializer

from nlgauge.annotate.schema import now as server_time
from nlgauge.annotate.store_records import Platform
from nlgauge.errors import DataError, OptionError

FEWEST_SECRET_CHARACTERS = 32
LINK_DAYS = 30.0

Purpose = Literal["link", "entrance", "rater", "researcher", "visitor"]
_Signed = TypeVar("_Signed")


class TokenError(DataError):
    """A token that was not signed here, was made for something else, or has run out."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """Somebody's way into a study: a personal link (`nonce` names it), or an entrance from a platform.

    `external_id` and `data` are what the platform said; a personal link has neither.
    """

    study: str
    expires_at: float
    nonce: str
    platform: Platform = "direct"
    external_id: str = ""
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RaterSession:
    """A rater in one browser. `nonce` binds the tokens of the pages to it; `link` is the nonce of a personal link.

    `handed_in` is the platform's assignment that is done and only has to be posted back; `in_frame` says that MTurk
    shows the pages in a frame.
    """

    rater: int
    study: str
    expires_at: float
    nonce: str
    link: str = ""
    handed_in: str = ""
    in_frame: bool = False


@dataclass(frozen=True, kw_only=True)
class ResearcherSession:
    """A researcher who has logged in."""

    name: str
    expires_at: float
    nonce: str


@dataclass(frozen=True, kw_only=True)
class VisitorSession:
    """A browser that has not come in yet."""

    expires_at: float
    nonce: str


def new_nonce() -> str:
    """A random name that nobody can guess."""
    return secrets.token_urlsafe(18)


def read_secret(path: str | Path) -> str:
    """The secret in a file that only its owner may read; made there the first time."""
    place = Path(path)
    try:
        if not place.exists():
            _make_secret(place)
        secret = place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise OptionError(f"{place}: {reason}; expected a file, or a folder, for the site's secret") from error
    return check_secret(secret, str(place))


def _make_secret(place: Path) -> None:
    """Write a secret whole or not at all; where another process was quicker, its secret stays."""
    handle, draft = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
        with suppress(FileExistsError):
            os.link(draft, place)
    finally:
        Path(draft).unlink()


def check_secret(secret: str, place: str = "the secret") -> str:
    """The secret, where it is long enough to sign with."""
    if len(secret) < FEWEST_SECRET_CHARACTERS:
        raise OptionError(
            f"{place}: found {len(secret)} characters; expected a secret of at least {FEWEST_SECRET_CHARACTERS}: "
            "delete the file, and a new one is made (links that were given out end with it)"
        )
    return secret


def sign_link(secret: str, study: str, *, nonce: str = "", days: float = LINK_DAYS, now: float | None = None) -> str:
    """The token of a personal link; each has a nonce of its own, by which the rater is known."""
    at = server_time() if now is None else now
    return sign(secret, "link", Link(study=study, expires_at=at + days * 86400, nonce=nonce or new_nonce()))


def link_address(base_url: str, token: str) -> str:
    """The address that a rater opens."""
    return f"{base_url.rstrip('/')}/r/{token}"


def entrance_address(base_url: str, study: str, platform: Platform) -> str:
    """The address that a crowd platform opens, to which it adds its own parameters."""
    return f"{base_url.rstrip('/')}/s/{quote(study, safe='')}/{platform}"


def sign(secret: str, purpose: Purpose, content: Any) -> str:
    """A record as a token that fits into an address or a cookie."""
    return str(_serializer(secret, purpose).dumps(asdict(content)))


def read(secret: str, purpose: Purpose, kind: type[_Signed], token: str, now: float) -> _Signed:
    """The record in a token; an error where it was not signed here for this purpose, or has run out."""
    try:
        content = msgspec.convert(_serializer(secret, purpose).loads(token), kind)
    except (BadSignature, msgspec.ValidationError, ValueError) as error:
        raise TokenError(
            "this link was not made by this site, or a part of it is missing; open it as you got it"
        ) from (error)
    if now > content.expires_at:  # type: ignore[attr-defined]
        raise TokenError("this link has run out; ask for a new one")
    return content


def csrf_token(secret: str, nonce: str) -> str:
    """What a page must send back, so that no other site can post in somebody's name; bound to one session."""
    return Signer(secret, salt="nlgauge.annotate.csrf", key_derivation="hmac").get_signature(nonce).decode()


def _serializer(secret: str, purpose: Purpose) -> URLSafeSerializer:
    return URLSafeSerializer(secret, salt=f"nlgauge.annotate.{purpose}", signer_kwargs={"key_derivation": "hmac"})
