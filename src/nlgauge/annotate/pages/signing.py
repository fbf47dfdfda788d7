"""Signed data of the site: rater links, entrances from crowd platforms, cookies and CSRF tokens.

Everything is signed with one secret (itsdangerous, HMAC), with a separate salt for each purpose, so that a token
made for one purpose is invalid for another. Times are the server's.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, TypeVar
from urllib.parse import quote

import msgspec
from itsdangerous import BadSignature, Signer, URLSafeSerializer

from nlgauge.annotate.settings import Platform
from nlgauge.errors import DataError, OptionError

FEWEST_SECRET_CHARACTERS = 32
LINK_DAYS = 30.0

Purpose = Literal["link", "entrance", "rater", "researcher", "visitor", "known"]


class TokenError(DataError):
    """A token with a wrong signature or purpose, or an expired one."""


@dataclass(frozen=True, kw_only=True)
class Signed:
    """The content of a token, which `nonce` identifies."""

    expires_at: float
    nonce: str


_Signed = TypeVar("_Signed", bound=Signed)


@dataclass(frozen=True, kw_only=True)
class Link(Signed):
    """An entry to a study: a personal link (identified by `nonce`), or an entrance from a platform.

    `external_id` and `data` come from the platform; a personal link has neither.
    """

    study: str
    platform: Platform = "direct"
    external_id: str = ""
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Session(Signed):
    """A browser, with a cookie named after the purpose; `nonce` binds the tokens of the pages to it."""

    purpose: ClassVar[Purpose]

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return self.purpose


@dataclass(frozen=True, kw_only=True)
class RaterSession(Session):
    """A rater in one browser; `link` is the nonce of a personal link.

    `handed_in` is the platform's finished assignment, which must still be posted back; `in_frame` says that MTurk
    shows the pages in a frame.
    """

    purpose = "rater"

    rater: int
    study: str
    link: str = ""
    handed_in: str = ""
    in_frame: bool = False

    @property
    def cookie(self) -> str:
        """One browser may have several raters."""
        return f"rater_{self.rater}"


@dataclass(frozen=True, kw_only=True)
class ResearcherSession(Session):
    """A researcher who has logged in."""

    purpose = "researcher"

    name: str


@dataclass(frozen=True, kw_only=True)
class KnownBrowser(Session):
    """A browser in which a researcher has logged in; it outlives the session."""

    purpose = "known"

    name: str


@dataclass(frozen=True, kw_only=True)
class VisitorSession(Session):
    """A browser that has opened an entrance or the login page."""

    purpose = "visitor"


def new_nonce() -> str:
    """A random, unguessable name."""
    return secrets.token_urlsafe(18)


def read_secret(path: str | Path) -> str:
    """The secret in a file that only its owner may read; created the first time."""
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
    """Write a secret atomically; if another process was faster, its secret is kept."""
    handle, draft = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
        with suppress(FileExistsError):
            os.link(draft, place)
    finally:
        Path(draft).unlink()


def check_secret(secret: str, place: str = "the secret") -> str:
    """The secret; raises an error if it is too short."""
    if len(secret) < FEWEST_SECRET_CHARACTERS:
        raise OptionError(
            f"{place}: found {len(secret)} characters; expected a secret of at least {FEWEST_SECRET_CHARACTERS}: "
            "delete the file, and a new one is made (existing links become invalid)"
        )
    return secret


def sign_link(secret: str, study: str, *, nonce: str = "", days: float = LINK_DAYS, now: float | None = None) -> str:
    """The token of a personal link; its nonce identifies the rater."""
    at = time.time() if now is None else now
    return sign(secret, "link", Link(study=study, expires_at=at + days * 86400, nonce=nonce or new_nonce()))


def link_address(base_url: str, token: str) -> str:
    """The address that a rater opens."""
    return f"{base_url.rstrip('/')}/r/{token}"


def entrance_address(base_url: str, study: str, platform: Platform, secret: str) -> str:
    """The address that a crowd platform opens, to which it adds its own parameters; nobody can guess its last part."""
    return f"{base_url.rstrip('/')}/s/{quote(study, safe='')}/{platform}/{entrance_key(secret, study, platform)}"


def entrance_key(secret: str, study: str, platform: Platform) -> str:
    """What only the site and the platform know of the address of an entrance."""
    signer = Signer(secret, salt="nlgauge.annotate.entrance-address", key_derivation="hmac")
    return signer.get_signature(f"{platform}:{study}").decode()


def sign(secret: str, purpose: Purpose, content: Signed) -> str:
    """A record as a token that fits into an address or a cookie."""
    return str(_serializer(secret, purpose).dumps(asdict(content)))


def read(secret: str, purpose: Purpose, kind: type[_Signed], token: str, now: float) -> _Signed:
    """The record in a token; raises an error for a wrong signature or an expired token."""
    try:
        content = msgspec.convert(_serializer(secret, purpose).loads(token), kind)
    except (BadSignature, msgspec.ValidationError, ValueError) as error:
        raise TokenError(
            "this link was not made by this site, or a part of it is missing; open it as you got it"
        ) from (error)
    if now > content.expires_at:
        raise TokenError("this link has expired; ask for a new one")
    return content


def csrf_token(secret: str, nonce: str) -> str:
    """The token that a page must send back, so that other sites cannot post; bound to one session."""
    return Signer(secret, salt="nlgauge.annotate.csrf", key_derivation="hmac").get_signature(nonce).decode()


def _serializer(secret: str, purpose: Purpose) -> URLSafeSerializer:
    return URLSafeSerializer(secret, salt=f"nlgauge.annotate.{purpose}", signer_kwargs={"key_derivation": "hmac"})
