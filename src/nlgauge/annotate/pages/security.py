"""Security of the pages: size limits, headers, errors without traces, sessions, protection against forged posts.

`Guard` is the outermost layer. It reads a body itself, up to a limit, and keeps it for the pages (`form_fields`).
`Site` identifies the user.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl, urlsplit

from fastapi import Path as PathValue
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nlgauge.annotate.database.records import Study
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.pages import signing
from nlgauge.annotate.pages.rendering import page
from nlgauge.annotate.pages.signing import (
    KnownBrowser,
    RaterSession,
    ResearcherSession,
    Session,
    TokenError,
    VisitorSession,
)
from nlgauge.annotate.settings import Platform
from nlgauge.errors import OptionError

MTURK_FRAMES = ("https://worker.mturk.com", "https://workersandbox.mturk.com", "https://www.mturk.com")
MTURK_POST_BACK = ("https://www.mturk.com", "https://workersandbox.mturk.com")

Number = Annotated[int, PathValue(ge=1, le=2**31 - 1)]

_Session = TypeVar("_Session", bound=Session)

# This site's own scripts, styles and pictures, none of them inline.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action {forms}; frame-ancestors {frames}; base-uri 'none'"
)
_log = logging.getLogger("nlgauge.annotate")
_MOST_FIELDS = 2000
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, kw_only=True)
class AppSettings:
    """How the site runs: `secret`, or a file that keeps it, signs links and cookies.

    `base_url` is the address by which raters reach the site, such as `https://rate.example.org`; with https, cookies
    are sent over https only. Without it the site trusts the request. `largest_body` is in bytes.
    """

    secret: str = ""
    secret_file: str | Path | None = None
    base_url: str = ""
    largest_body: int = 256 * 1024
    researcher_hours: float = 12.0
    rater_days: float = signing.LINK_DAYS

    def __post_init__(self) -> None:
        if self.base_url and not _is_address(self.base_url):
            raise OptionError(
                f"the address {self.base_url[:80]!r}; expected http:// or https:// and a host, without a path"
            )
        for name in ("largest_body", "researcher_hours", "rater_days"):
            if not getattr(self, name) > 0:
                raise OptionError(f"{name} = {getattr(self, name)}; expected a number above 0")

    @property
    def is_secure(self) -> bool:
        """Whether the site is reached by https."""
        return self.base_url.lower().startswith("https://")

    def key(self) -> str:
        """The secret."""
        if self.secret:
            return signing.check_secret(self.secret)
        if self.secret_file is None:
            raise OptionError("found no secret; expected secret, or secret_file to keep one in")
        return signing.read_secret(self.secret_file)


class Refused(Exception):
    """A refused request: the answer is a plain page, or JSON."""

    def __init__(self, status: int, title: str, message: str) -> None:
        super().__init__(message)
        self.status, self.title, self.message = status, title, message


def allow_mturk(request: Request, posts_to: str = "") -> None:
    """Let MTurk frame the answer to this request, and its forms post to a site of MTurk."""
    request.state.mturk = posts_to


class Guard:
    """The outermost layer of the site; `largest_body` is in bytes."""

    def __init__(self, app: ASGIApp, *, largest_body: int, is_secure: bool) -> None:
        self.app, self.largest_body, self.is_secure = app, largest_body, is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every exception becomes an error page."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._add_headers(scope, MutableHeaders(scope=message))
            await send(message)

        request = Request(scope)
        try:
            body = await self._body(Headers(scope=scope), receive)
            scope["state"]["body"] = body
            await self.app(scope, _again(body, receive), guarded)
        except Refused as refused:
            await refusal(request, refused)(scope, receive, guarded)
        except Exception as error:
            if started:
                raise
            await failure(request, error)(scope, receive, guarded)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        too_large = Refused(413, "Too large", f"This is more than {self.largest_body:,} bytes; send less at once.")
        declared = headers.get("content-length", "")
        if declared and (not declared.isascii() or not declared.isdigit()):
            raise Refused(400, "Not understood", "The length of the request is not a number.")
        if declared and int(declared[:20]) > self.largest_body:
            raise too_large
        if not declared and "transfer-encoding" not in headers:
            return b""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Refused(400, "Not understood", "The request ended before it was complete.")
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > self.largest_body:
                raise too_large
        return b"".join(parts)

    def _add_headers(self, scope: Scope, headers: MutableHeaders) -> None:
        posts_to = scope["state"].get("mturk")
        frames = "'none'" if posts_to is None else " ".join(MTURK_FRAMES)
        headers["Content-Security-Policy"] = _POLICY.format(forms=f"'self' {posts_to or ''}".strip(), frames=frames)
        for name, value in _HEADERS.items():
            if name != "Cache-Control" or name not in headers:
                headers[name] = value
        if posts_to is None:
            headers["X-Frame-Options"] = "DENY"
        if self.is_secure:
            headers["Strict-Transport-Security"] = "max-age=31536000"


def _again(body: bytes, receive: Receive) -> Receive:
    """A receiver that repeats the body that was read, then continues with the connection."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


def refusal(request: Request, refused: Refused) -> Response:
    """A refusal as a page, or as JSON for the routes under /api."""
    made: Response
    if request.url.path.startswith("/api/"):
        made = JSONResponse({"error": refused.message}, status_code=refused.status)
    else:
        made = page("message.html", status=refused.status, title=refused.title, message=refused.message)
    if refused.status == 413:
        made.headers["Connection"] = "close"
    return made


def failure(request: Request, error: Exception, *, status: int = 500) -> Response:
    """An internal error: the log has the trace with an id, the page has the id alone."""
    id = secrets.token_hex(4)
    _log.error("error %s at %s %s", id, request.method, ascii(request.url.path), exc_info=error)
    message = f"An error occurred on this site. Try again; if it persists, tell the researcher this number: {id}."
    return refusal(request, Refused(status, "Something went wrong", message))


def json_error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error of the JSON routes."""
    return JSONResponse({"error": message}, status_code=status, headers=dict(headers or {}))


def form_fields(request: Request, known: Collection[str], *, longest: int = 20_000) -> dict[str, list[str]]:
    """The fields of a posted form; unknown, too many or too long ones are refused."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "Not understood", "Expected a form of this site (application/x-www-form-urlencoded).")
    fields: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            request.state.body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise Refused(400, "Not understood", "The form is not UTF-8 text, or has too many fields.") from error
    for name, value in pairs:
        if name not in known:
            raise Refused(422, "Not understood", f"Found the field {ascii(name)[:40]}; expected those of the page.")
        if len(value) > longest:
            raise Refused(422, "Too long", f"Found {len(value):,} characters in a field; expected at most {longest:,}.")
        fields.setdefault(name, []).append(value)
    return fields


def go_to(path: str) -> RedirectResponse:
    """An answer that sends the browser to another page of the site."""
    return RedirectResponse(path, status_code=303)


def one(fields: Mapping[str, list[str]], name: str) -> str:
    """The value of a field that a form has once, without the spaces around it; empty if it is missing."""
    values = fields.get(name, [""])
    if len(values) != 1 or "\0" in values[0]:
        raise Refused(422, "Not understood", f"Expected one value for '{name}', as the page sends it.")
    return values[0].strip()


@dataclass(frozen=True)
class Site:
    """The store, the settings and the sessions: signed cookies, each with a nonce for its tokens.

    A researcher's session must also be open in the store.
    """

    store: Store
    settings: AppSettings
    secret: str

    @property
    def now(self) -> float:
        """The clock."""
        return self.store.now()

    def token(self, session: Session) -> str:
        """The token that the pages of a session send with every post."""
        return signing.csrf_token(self.secret, session.nonce)

    def check_post(self, request: Request, session: Session, given: str) -> None:
        """Refuse a post from another site, by its origin and its token."""
        fetched_from, origin = request.headers.get("sec-fetch-site", "same-origin"), request.headers.get("origin")
        own = _host(self.settings.base_url) or request.headers.get("host", "").lower()
        foreign = fetched_from != "same-origin" or (origin is not None and _host(origin) != own)
        if foreign or not compare_digest(given.encode(), self.token(session).encode()):
            raise Refused(
                403,
                "Not accepted",
                "This did not come from a page of this site, or the page is too old. Open the page again and retry.",
            )

    def visitor(self, request: Request) -> VisitorSession | None:
        """A browser that has opened an entrance or the login page."""
        return self._session(request, VisitorSession, "visitor")

    def new_visitor(self, request: Request) -> VisitorSession:
        """The same browser as before, or a new one."""
        expires_at = self.now + self.settings.rater_days * 86400
        return self.visitor(request) or VisitorSession(expires_at=expires_at, nonce=signing.new_nonce())

    def rater(self, request: Request, rater: int) -> RaterSession:
        """The session of this rater, whose pages MTurk may frame if they came from there; other raters are refused."""
        found = self._session(request, RaterSession, f"rater_{rater}")
        if found is None or found.rater != rater:
            raise Refused(
                404, "Nothing here", "There is no such page for you. To continue rating, open your link again."
            )
        if found.in_frame:
            allow_mturk(request)
        return found

    def raters(self, request: Request) -> list[RaterSession]:
        """All rater sessions of this browser."""
        names = [name for name in request.cookies if name.startswith("rater_")]
        found = [self._session(request, RaterSession, name) for name in names]
        return [session for session in found if session is not None]

    def researcher(self, request: Request) -> ResearcherSession | None:
        """The researcher who is logged in."""
        found = self._session(request, ResearcherSession, "researcher")
        return found if found is not None and self.store.has_session(found.name, found.nonce) else None

    def known_browser(self, request: Request, name: str) -> str:
        """What identifies a browser in which this researcher has logged in before; empty for others."""
        found = self._session(request, KnownBrowser, "known")
        return found.nonce if found is not None and found.name == name else ""

    def remember(self, response: Response, session: Session, *, in_frame: bool = False) -> None:
        """Set the cookie of a session."""
        token = signing.sign(self.secret, session.purpose, session)
        self.set_cookie(response, session.cookie, token, session.expires_at - self.now, in_frame)

    def address(self, request: Request) -> str:
        """The address of the site."""
        return self.settings.base_url or str(request.base_url)

    def set_cookie(self, response: Response, name: str, value: str, seconds: float = 0, in_frame: bool = False) -> None:
        """Not for scripts; in a platform's frame it is partitioned, so that it works only there."""
        secure = "; Secure" if self.settings.is_secure else ""
        same_site = "None; Partitioned" if in_frame and secure else "Lax"
        response.headers.append(
            "Set-Cookie",
            f"{name}={value}; Path=/; Max-Age={max(0, int(seconds))}; HttpOnly; SameSite={same_site}{secure}",
        )

    def _session(self, request: Request, kind: type[_Session], cookie: str) -> _Session | None:
        try:
            return signing.read(self.secret, kind.purpose, kind, request.cookies.get(cookie, ""), self.now)
        except TokenError:
            return None


def post_back_origin(url: str) -> str | None:
    """MTurk's origin for finished work; None for other addresses."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}".lower()
    return origin if origin in MTURK_POST_BACK else None


def allows(study: Study, platform: Platform) -> bool:
    """Whether a study takes raters from a platform: MTurk requires an address to post back to, Prolific a code."""
    settings = study.settings
    if platform not in settings.platforms:
        return False
    if platform == "mturk":
        return post_back_origin(settings.post_back_url) is not None
    return platform == "direct" or bool(settings.completion_code)


def _is_address(url: str) -> bool:
    """Whether a site can be reached at an address: a scheme, a host, perhaps a port, and nothing else."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    return known and not more and url.isascii() and url.isprintable() and " " not in url


def _host(origin: str) -> str:
    """Host and port as browsers name them: in lower case, without the default port."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower().removesuffix(":443" if parts.scheme == "https" else ":80")
