"""AWS Secrets Manager: `aws-secrets-manager:NAME` or an ARN.

botocore (the extra `arco[aws]`) finds region and credentials where AWS's own programs find them,
signs, and retries transient failures.
"""

from __future__ import annotations

import base64
import re
import threading
from typing import Any, Final

from arco.errors import Denied, Invalid, NotFound, Unavailable
from arco.worker.secret_managers.calls import DEADLINE_S, TIMEOUT_S, setting
from servo.contract.manifest import SecretRef

try:
    import botocore.config
    import botocore.exceptions
    import botocore.session
except ImportError as missing:
    raise Invalid(
        "secrets of AWS need botocore, which is not installed",
        hint="install arco[aws] for the worker",
    ) from missing

_VERSION_ID: Final = re.compile(r"[0-9A-Za-z-]{32,64}\Z")
"""Any other version is a stage, as AWSPREVIOUS."""
_MISSING: Final = frozenset({"ResourceNotFoundException"})
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "DecryptionFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "NotAuthorized",
        "OptInRequired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_PASSING: Final = frozenset(
    {"InternalServiceError", "ThrottlingException", "Throttling", "RequestTimeout"}
)


class AwsSecrets:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: Any = None

    def resolve(self, ref: SecretRef) -> str:
        given = {"SecretId": ref.path}
        if ref.version:
            is_id = _VERSION_ID.match(ref.version)
            given["VersionId" if is_id else "VersionStage"] = ref.version
        try:
            answer = self._opened().get_secret_value(**given)
        except botocore.exceptions.ClientError as error:
            raise _translated(error, ref) from None
        except botocore.exceptions.NoRegionError:
            raise Invalid("no AWS region is set", hint="set AWS_REGION for the worker") from None
        except (
            botocore.exceptions.NoCredentialsError,
            botocore.exceptions.PartialCredentialsError,
            botocore.exceptions.CredentialRetrievalError,
            botocore.exceptions.ProfileNotFound,
            botocore.exceptions.TokenRetrievalError,
        ) as error:
            raise Denied(
                f"there are no credentials for AWS ({type(error).__name__})",
                hint="give the worker a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ) from None
        except (
            botocore.exceptions.ConnectionError,
            botocore.exceptions.HTTPClientError,
        ) as error:
            raise Unavailable(
                f"AWS Secrets Manager cannot be reached ({type(error).__name__})",
                hint="check AWS_REGION and the network; the task's retries try it again",
            ) from None
        except botocore.exceptions.BotoCoreError as error:
            raise Invalid(f"AWS refuses the reference ({type(error).__name__})") from None
        return _text(answer)

    def _opened(self) -> Any:
        """One client for all threads; its session is not for several of them."""
        with self._lock:
            if self._client is None:
                session = botocore.session.Session()
                config = botocore.config.Config(
                    connect_timeout=TIMEOUT_S,
                    read_timeout=DEADLINE_S,
                    retries={"mode": "standard", "total_max_attempts": 3},
                )
                region = session.get_config_variable("region") or _region()
                self._client = session.create_client(
                    "secretsmanager", region_name=region, config=config
                )
            return self._client


def _region() -> str | None:
    """botocore knows AWS_DEFAULT_REGION alone, the other programs of AWS also this name."""
    return setting("AWS_REGION") or None


def _translated(error: Any, ref: SecretRef) -> Exception:
    """AWS's own message is left out: it repeats the request."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _MISSING:
        what = f"version {ref.version}" if ref.version else "secret"
        return NotFound(f"AWS has no such {what} in this region ({code})")
    if code in _DENIED or status in (401, 403):
        return Denied(
            f"AWS denies access ({code})",
            hint="allow secretsmanager:GetSecretValue on it, and kms:Decrypt on its key",
        )
    if code in _PASSING or status == 429 or status >= 500:
        return Unavailable(f"AWS Secrets Manager is not available ({code})")
    return Invalid(
        f"AWS refuses the reference ({code})",
        hint="check name and version; a secret that is being deleted has no value",
    )


def _text(answer: dict[str, Any]) -> str:
    if "SecretString" in answer:
        return str(answer["SecretString"])
    data = answer.get("SecretBinary", b"")
    try:
        return (data if isinstance(data, bytes) else base64.b64decode(data)).decode()
    except (UnicodeDecodeError, ValueError):
        raise Invalid(
            "it is not UTF-8 text", hint="store it as text, for example in base64"
        ) from None
