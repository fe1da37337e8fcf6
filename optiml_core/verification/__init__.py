"""Is the candidate the same function as the original? Error budget, guards, checks, verdict."""

from optiml_core.verification.verify import Verifier, verify

__all__ = ["Verifier", "verify"]
