"""What schemathesis is told beside the description: nobody waits for long."""

import schemathesis

# Fields in which a caller says how many seconds to wait.
WAITS = ("wait", "timeout", "timeout_seconds", "command_timeout")
SHORT = 0.1


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path.endswith("/wait"):
        # Without one it is a minute.
        case.query = {**(case.query or {}), "timeout": str(SHORT)}
    for part in (case.query, case.body):
        if not isinstance(part, dict):
            continue
        for name in WAITS:
            value = part.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > SHORT:
                part[name] = SHORT
