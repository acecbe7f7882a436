"""Sources of tokens for OAUTHBEARER, and of signatures for AWS_MSK_IAM. The engine does not import this package; api/logins passes its
functions to the engine. The registry client uses the package, too.

A program can restrict the token endpoints with allow_token_endpoints().
"""

from levada.oauth.endpoint import allow_token_endpoints

__all__ = ["allow_token_endpoints"]
