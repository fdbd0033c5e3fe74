"""Translates Spark's errors: what is wrong, where, and what to do about it.

Spark says most things with a *condition* (`UNRESOLVED_COLUMN.WITH_SUGGESTION`) and an SQLSTATE, as
text that looks the same from the JVM, from a Connect server, and inside of a stack trace:
`[CONDITION] Words. SQLSTATE: 42703`, then the plan. So an error is first parsed into `Parts`, and
the first matching line of the tables below decides. Without a condition (a lost executor, a Python
worker that crashed) the class of the Java exception decides, or else the words of the message; they
never decide for an error with a condition.

Nothing here raises, and nothing needs the JVM to be alive.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from arco.tasks.failure import Verdict
from servo.contract.manifest import Category

MAX_DETAILS: Final = 12
_MAX_CAUSES: Final = 12


class SparkFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A translated failure."""

    category: Category
    code: str
    message: str
    hint: str = ""
    exception: str = ""
    """The class: of the UDF's own exception, if that is what it is."""
    condition: str = ""
    sqlstate: str = ""
    suggestions: tuple[str, ...] = ()
    start: int | None = None
    """Offsets into the SQL text, both inclusive, as Spark counts."""
    stop: int | None = None
    sql_line: int = 0
    """In the SQL text, from 1; 0 where it is not about SQL."""
    sql_column: int = 0
    """In that line, from 0."""
    file: str = ""
    """The Python file, and line, of a UDF or of the expression that failed."""
    line: int = 0
    details: str = ""
    """More lines, never a Java stack. Lines are complete: they are redacted before they are cut.
    """


class Parts(NamedTuple):
    """The parts of an error."""

    exception: str
    text: str
    """All that it says, without a stack."""
    causes: tuple[tuple[str, str], ...] = ()
    """Java classes and messages, from the outside in."""
    condition: str = ""
    sqlstate: str = ""
    parameters: dict[str, str] = {}
    start: int | None = None
    stop: int | None = None
    site: tuple[str, int] = ("", 0)


# -- the tables ---------------------------------------------------------------------------

_MEMORY = (
    "raise spark.driver.memory (or spark.executor.memory on a cluster), or use more partitions"
)
_JARS = "add the connector under `packages` in [spark], e.g. org.apache.hadoop:hadoop-aws:3.5.0"
_MISSING = "the input's files are missing: run it again"
_NO_INPUT = Verdict("input", "input.missing", _MISSING)
_NO_PATH = Verdict(
    "user_code", "spark.path_not_found", "check the path: the code reads it, and it is not an input"
)
_LOST = Verdict(
    "infrastructure", "spark.executor_lost", "executors were lost, often because of memory"
)
_DENIED = Verdict("configuration", "store.denied", "grant Spark access to the storage")
_CANCELLED = Verdict("cancelled", "cancelled.spark")
_WORKER = Verdict(
    "infrastructure",
    "spark.python_worker",
    "a Python worker died: it used too much memory, or native code crashed",
)
_NO_SPACE = Verdict("infrastructure", "os.no_space", "free disk space where Spark runs")
_OOM = Verdict("infrastructure", "spark.out_of_memory", _MEMORY)
_PACKAGE = Verdict("configuration", "spark.package", _JARS)
_RESULT_SIZE = Verdict("user_code", "spark.result_size", "collect fewer rows")
_UNREACHABLE = Verdict("transient", "os.connection", "the remote service may be unavailable")

# Conditions: the longest prefix, by dots, that is here.
_CONDITIONS: Final[dict[str, Verdict]] = {
    "SPARK_JOB_CANCELLED": _CANCELLED,
    "OPERATION_CANCELED": _CANCELLED,
    "JOB_CANCELLED": _CANCELLED,
    "PATH_NOT_FOUND": _NO_PATH,
    "FAILED_READ_FILE.FILE_NOT_EXIST": _NO_PATH,
    "FAILED_READ_FILE.UNSUPPORTED_FILE_SYSTEM": _PACKAGE,
    "FAILED_READ_FILE": Verdict(
        "input", "input.unreadable", "a file is damaged, or has another format than its name says"
    ),
    "DATA_SOURCE_NOT_FOUND": _PACKAGE,
    "UNSUPPORTED_FILESYSTEM": _PACKAGE,
    "UNABLE_TO_ACQUIRE_MEMORY": _OOM,
    "EXECUTOR_OUT_OF_MEMORY": _OOM,
    "PYTHON_WORKER_EXITED": _WORKER,
    "CANNOT_CONVERT_COLUMN_INTO_BOOL": Verdict(
        "user_code", "spark.column_as_bool", "use & | ~ with columns, and parentheses around them"
    ),
    "RESULT_SIZE_LIMIT": _RESULT_SIZE,
} | {
    condition: Verdict("user_code", f"spark.{condition.lower()}", hint)
    for condition, hint in {
        "TABLE_OR_VIEW_NOT_FOUND": "read other assets through inputs: "
        "{{ ref('namespace.name') }} in SQL",
        "UNRESOLVED_ROUTINE": "register the function in this task's session",
        "PARSE_SYNTAX_ERROR": "correct the SQL",
        "COLUMN_ALREADY_EXISTS": "give the columns names that differ in more than case",
        "CAST_INVALID_INPUT": "use try_cast, or clean the values before",
        "DIVIDE_BY_ZERO": "use try_divide, or a filter",
        "INTERNAL_ERROR": "this is a bug in Spark; write the query in another way",
    }.items()
}
# SQLSTATE classes, for conditions that are not in the table.
_STATES: Final[dict[str, tuple[Category, str]]] = {
    "08": ("transient", "the remote service may be unavailable for a moment"),
    "53": ("infrastructure", _MEMORY),
    "58": ("infrastructure", "check the machine that Spark runs on"),
    "KD": ("input", "check the input's files"),
    "42": ("user_code", "correct the query"),
    "22": ("user_code", "a value does not fit: clean it, or use a try_ function"),
}
# Java classes by their last name, from the innermost cause outwards.
_JAVA: Final[dict[str, Verdict]] = {
    "OutOfMemoryError": _OOM,
    "SparkOutOfMemoryError": _OOM,
    "StackOverflowError": Verdict(
        "user_code",
        "spark.plan_too_deep",
        "move a part of the query into its own asset, or use checkpoint()",
    ),
    "FileNotFoundException": _NO_PATH,
    "NoSuchFileException": _NO_PATH,
    "AccessControlException": _DENIED,
    "AccessDeniedException": _DENIED,
    "UnsupportedFileSystemException": _PACKAGE,
    "ClassNotFoundException": _PACKAGE,
    "NoClassDefFoundError": _PACKAGE,
    "ConnectException": _UNREACHABLE,
    "NoRouteToHostException": _UNREACHABLE,
    "UnknownHostException": Verdict("transient", "os.connection", "check the host's name"),
    "SocketTimeoutException": Verdict(
        "transient", "os.timeout", "the remote service took too long"
    ),
    "FetchFailedException": _LOST,
    "MetadataFetchFailedException": _LOST,
    "InterruptedException": _CANCELLED,
    "TaskKilledException": _CANCELLED,
}
# By words of the message, where there is nothing else.
_WORDS: Final[tuple[tuple[re.Pattern[str], Verdict], ...]] = (
    (re.compile(r"ExecutorLostFailure|executor \S+ exited|Lost executor|FetchFailed\("), _LOST),
    (
        re.compile(r"[Mm]aster removed our application|All masters are unresponsive"),
        Verdict(
            "infrastructure", "spark.master_lost", "check that the cluster's master is running"
        ),
    ),
    (re.compile(r"Python worker (exited unexpectedly|failed to connect)"), _WORKER),
    (re.compile(r"No space left on device"), _NO_SPACE),
    (re.compile(r"Java heap space|GC overhead limit|Container killed .* memory"), _OOM),
    (re.compile(r"Total size of serialized results .* is bigger than"), _RESULT_SIZE),
    (re.compile(r"Mkdirs failed|Permission denied"), _DENIED),
    (re.compile(r"No FileSystem for scheme"), _PACKAGE),
    (re.compile(r"(?i)\bjob .*cancelled|\bcancelled\b.*\bjob"), _CANCELLED),
)
_DRIVER_LOST: Final = Verdict(
    "infrastructure",
    "spark.driver_lost",
    "a retry starts a new driver; if it dies again, give it more memory",
)
_CLUSTER_LOST: Final = Verdict(
    "infrastructure",
    "spark.cluster_lost",
    "a retry gets a new session; if that is lost too, check the cluster's master and workers",
)
_EXITS: Final[dict[int, str]] = {
    52: "it ran out of memory",
    **dict.fromkeys((137, -9), "it was killed, perhaps because the machine ran out of memory"),
    **dict.fromkeys((143, -15), "it was terminated"),
    **dict.fromkeys((134, -6, -11), "it crashed"),
}


# -- what an error is ---------------------------------------------------------------------


def translate(error: BaseException, versions: Collection[str] = ()) -> SparkFailure | None:
    """The translated error, or None if it is not Spark's. Never raises.

    `versions` are the ids of the materializations that the task reads.
    """
    try:
        if connection_lost(error):
            return driver_lost(error)
        parts = _parts(error)
        return None if parts is None else judge(parts, versions)
    except Exception:  # a failure of the translation is ignored
        return None


def driver_lost(
    error: BaseException, exit_status: int | None = None, cluster: str = ""
) -> SparkFailure:
    """The failure of a task whose driver has ended.

    `cluster` is the reason, if its cluster was lost.
    """
    cause, what, verdict = cluster, "cluster", _CLUSTER_LOST
    if not cluster:
        what, verdict = "driver", _DRIVER_LOST
        cause = "" if exit_status is None else _EXITS.get(exit_status, f"exit status {exit_status}")
    return SparkFailure(
        category=verdict.category,
        code=verdict.code,
        message=f"Spark's {what} was lost while the task ran" + (f": {cause}" if cause else ""),
        hint=verdict.hint,
        exception=type(error).__name__,
        details=f"{type(error).__name__}: {_message(error)}",
    )


def connection_lost(error: BaseException) -> bool:
    """Whether the connection to the driver broke: an answer that never came, or a closed port."""
    return any(_is_cut(cause) for cause in _chain(error))


def from_spark(error: BaseException) -> bool:
    """Whether it was raised in PySpark, or in what PySpark calls."""
    return any(
        frame.f_globals.get("__name__", "").partition(".")[0] in ("pyspark", "py4j", "grpc")
        for cause in _chain(error)
        for frame, _ in traceback.walk_tb(cause.__traceback__)
    )


_STOPPED: Final = re.compile(
    r"stopped SparkContext|SparkContext (was|has been) (shut ?down|stopped)"
)


def _is_cut(error: BaseException) -> bool:
    name, module = type(error).__name__, type(error).__module__
    if module.startswith("py4j"):
        return name == "Py4JNetworkError" or (
            name == "Py4JError" and "Answer from Java side is empty" in str(error)
        )
    if isinstance(error, OSError | EOFError):
        return not isinstance(error, FileNotFoundError) and _innermost(error).startswith("py4j")
    if name == "IllegalStateException" or module.startswith("pyspark.errors"):
        return bool(_STOPPED.search(_message(error))) or _unavailable(error)
    return False


def _unavailable(error: BaseException) -> bool:
    """A Connect server that does not answer: only the status of the call is known."""
    text = _message(error)
    return "connect" in type(error).__module__ and (
        "StatusCode.UNAVAILABLE" in text or "RETRIES_EXCEEDED" in text
    )


def _innermost(error: BaseException) -> str:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")) if frames else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


# -- taking it apart ----------------------------------------------------------------------


def _parts(error: BaseException) -> Parts | None:
    if any(base.__name__ == "PySparkException" for base in type(error).__mro__):
        return _pyspark_parts(error)
    if type(error).__name__ == "Py4JJavaError":
        return _java_parts(error)
    return None


def _pyspark_parts(error: Any) -> Parts:
    text = _message(error)
    start, stop, site = _context(error)
    parameters = _quietly(error.getMessageParameters) or {}
    return Parts(
        exception=type(error).__name__,
        text=text,
        causes=_causes(getattr(error, "_origin", None)),
        condition=_quietly(error.getCondition) or _first(_CONDITION, text),
        sqlstate=_quietly(error.getSqlState) or _first(_STATE, text),
        parameters={str(key): str(value) for key, value in parameters.items()},
        start=start,
        stop=stop,
        site=site,
    )


def _java_parts(error: Any) -> Parts:
    causes = _causes(error.java_exception)
    text = "\n".join(message for _, message in causes) or _message(error)
    named = next((message for _, message in reversed(causes) if _first(_CONDITION, message)), text)
    name = causes[-1][0].rpartition(".")[2] if causes else "Py4JJavaError"
    return Parts(name, text, causes, _first(_CONDITION, named), _first(_STATE, named))


def _causes(java: Any) -> tuple[tuple[str, str], ...]:
    """Reads from the JVM; the connection may break at any moment."""
    causes: list[tuple[str, str]] = []
    with contextlib.suppress(Exception):
        while java is not None and len(causes) < _MAX_CAUSES:
            causes.append((str(java.getClass().getName()), _without_stack(java.getMessage() or "")))
            java = java.getCause()
    return tuple(causes)


def _message(error: BaseException) -> str:
    """The message. For errors of the JVM this calls the JVM, which may have ended."""
    described = getattr(error, "_desc", None)
    if isinstance(described, str):
        return _without_stack(described)
    return _without_stack(_quietly(lambda: str(error)) or "")


def _without_stack(text: str) -> str:
    text = text.partition("\n\nJVM stacktrace:")[0].partition("\nDriver stacktrace:")[0]
    lines = [line for line in text.splitlines() if not re.match(r"\s+at |\s*\.\.\. \d+ more", line)]
    return "\n".join(lines).strip()


def _quietly(read: Callable[[], Any]) -> Any:
    with contextlib.suppress(Exception):
        return read()
    return None


_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")
_STATE: Final = re.compile(r"SQLSTATE: (\w{5})")
_POSITION: Final = re.compile(r"\(?line (\d+), pos(?:ition)? (\d+)\)?|\bline (\d+) pos (\d+)\b")
_PROPOSAL: Final = re.compile(r"Did you mean one of the following\? \[([^\]]*)\]")
_SITE: Final = re.compile(r"(?P<file>[^\n\"]+\.py):(?P<line>\d+)")


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""


def _context(error: Any) -> tuple[int | None, int | None, tuple[str, int]]:
    """Where in the SQL, or where in Python the expression was made."""
    for context in _quietly(error.getQueryContext) or ():
        kind = getattr(_quietly(context.contextType), "name", "")
        if kind == "SQL":
            start, stop = _quietly(context.startIndex), _quietly(context.stopIndex)
            if isinstance(start, int) and start >= 0:
                return start, stop, ("", 0)
        match = _SITE.fullmatch(_quietly(context.callSite) or "") if kind != "SQL" else None
        if match:
            return None, None, (match["file"], int(match["line"]))
    return None, None, ("", 0)


# -- judging ------------------------------------------------------------------------------


def judge(parts: Parts, versions: Collection[str] = ()) -> SparkFailure:
    """The failure that the parts of an error describe. Pure."""
    if parts.condition.startswith("PYTHON_EXCEPTION") or "Traceback (most" in parts.text:
        return _python_failure(parts)
    verdict = _verdict(parts)
    if verdict is _NO_PATH:
        verdict = _path_owner(parts, versions)
    suggestions = _suggestions(parts)
    sql_line, sql_column = _position(parts.text)
    words = _words(parts)
    return SparkFailure(
        category=verdict.category,
        code=verdict.code,
        message=words.partition("\n")[0] or parts.exception,
        hint=_did_you_mean(suggestions) or verdict.hint,
        exception=parts.exception,
        condition=parts.condition,
        sqlstate=parts.sqlstate,
        suggestions=suggestions,
        start=parts.start,
        stop=parts.stop,
        sql_line=sql_line,
        sql_column=sql_column,
        file=parts.site[0],
        line=parts.site[1],
        details=_details(parts, words),
    )


def _verdict(parts: Parts) -> Verdict:
    if by_condition := _by_condition(parts.condition):
        return by_condition
    for name, _ in reversed(parts.causes):
        if (short := name.rpartition(".")[2]) in _JAVA:
            return _JAVA[short]
    words = _unconditional(parts)
    for pattern, verdict in _WORDS:
        if pattern.search(words):
            return verdict
    category, hint = _STATES.get(parts.sqlstate[:2], ("user_code", ""))
    code = f"spark.{parts.condition.lower()}" if parts.condition else f"spark.{parts.exception}"
    return Verdict(category, code, hint or "correct the code; the traceback shows where")


def _path_owner(parts: Parts, versions: Collection[str]) -> Verdict:
    """An input's: folders of versions have their ids as names. Spark's own, or the code's."""
    texts = "\n".join((parts.text, *(text for _, text in parts.causes)))
    if any(f"/{id}" in texts for id in versions):
        return _NO_INPUT
    return _LOST if "/blockmgr-" in texts else _NO_PATH


def _unconditional(parts: Parts) -> str:
    """The text without a condition: all of it, or what is below the cause that has one.

    Messages with a condition may quote user text, which must not decide.
    """
    if not parts.condition or parts.condition.startswith("_LEGACY_ERROR"):
        return parts.text
    texts = [text for _, text in parts.causes]
    named = [at for at, text in enumerate(texts) if f"[{parts.condition}]" in text]
    return "\n".join(texts[named[-1] + 1 :]) if named else ""


def _by_condition(condition: str) -> Verdict | None:
    while condition:
        if condition in _CONDITIONS:
            return _CONDITIONS[condition]
        condition = condition.rpartition(".")[0]
    return None


def _words(parts: Parts) -> str:
    """The error's own words: no condition, no state, no plan, no name of a task or a host."""
    texts = [text for _, text in parts.causes if text]
    named = [text for text in texts if parts.condition and f"[{parts.condition}]" in text]
    text = named[-1] if named else _root(texts) if texts else parts.text
    text = _CONDITION.sub("", text.strip(), count=1)
    text = _STATE.split(text)[0]
    text = re.split(r"\n\n|\n== (?:SQL|DataFrame)", text)[0]
    return _POSITION.sub("", text).rstrip(" ;\n")


_LOST_TASK: Final = re.compile(r"most recent failure: (?:Lost task \S+ in stage \S+ )?")
_TASK_PLACE: Final = re.compile(r"^(?:\(TID \d+\)\s*)?(?:\([^)]*executor[^)]*\):\s*)?")
_JAVA_NAME: Final = re.compile(r"^(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error))\b(?:: )?")


def _root(texts: list[str]) -> str:
    """The innermost message; what is left of a failed Spark task without the task."""
    text = texts[-1]
    match = _LOST_TASK.search(text)
    if match:
        text = _TASK_PLACE.sub("", text[match.end() :])
    return _JAVA_NAME.sub(lambda name: f"{name.group(1)}: ", text)


def _position(text: str) -> tuple[int, int]:
    match = _POSITION.search(text)
    if not match:
        return 0, 0
    line, column = (number for number in match.groups() if number is not None)
    # `(line 1, position 8)` counts columns from 1, the others from 0.
    return int(line), int(column) - ("position" in match.group(0))


def _suggestions(parts: Parts) -> tuple[str, ...]:
    proposed = parts.parameters.get("proposal") or parts.parameters.get("suggestion", "")
    if not proposed:
        proposed = _first(_PROPOSAL, parts.text)
    return tuple(re.findall(r"`[^`]+`(?:\.`[^`]+`)*", proposed))


def _did_you_mean(suggestions: tuple[str, ...]) -> str:
    names = [name.replace("`", "") for name in suggestions[:5]]
    if not names:
        return ""
    return f"did you mean {names[0]}?" if len(names) == 1 else f"candidates: {', '.join(names)}"


def _details(parts: Parts, words: str) -> str:
    rest = words.splitlines()[1:]
    causes = [f"{name}: {text.partition(chr(10))[0]}" for name, text in parts.causes]
    return "\n".join((*rest, *causes)[:MAX_DETAILS])


# -- a UDF's own exception ----------------------------------------------------------------

_FRAME: Final = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in .*)?$')
_LIBRARY: Final = re.compile(r"site-packages/|dist-packages/|pyspark\.zip/|/lib/python3|^<frozen")


def _python_failure(parts: Parts) -> SparkFailure:
    text = parts.parameters.get("traceback") or parts.text
    text = text[max(text.rfind("Traceback (most recent call last)"), 0) :]
    lines = _STATE.split(text)[0].rstrip().splitlines()
    file, line = _last_frame(lines)
    raised = _raised(lines)
    name = re.match(r"[\w.]+", raised)
    exception = name.group(0).rpartition(".")[2] if name else "PythonException"
    return SparkFailure(
        category="user_code",
        code=f"user_code.{exception}",
        message=raised or "a Python function failed",
        hint="correct the function; it fails on some of the rows",
        exception=exception,
        condition=parts.condition,
        sqlstate=parts.sqlstate,
        file=file,
        line=line,
        details="\n".join(lines[-MAX_DETAILS:]),
    )


def _last_frame(lines: list[str]) -> tuple[str, int]:
    """The last frame that is not a library's; of any file if there is no other."""
    frames = [match for line in lines if (match := _FRAME.match(line))]
    own = [match for match in frames if not _LIBRARY.search(match["file"])] or frames
    return (own[-1]["file"], int(own[-1]["line"])) if own else ("", 0)


def _raised(lines: list[str]) -> str:
    """The last line that starts at the margin: `ValueError: what it says`."""
    return next((line for line in reversed(lines) if re.match(r"[A-Za-z_]", line)), "")
