"""What a call is, and which rules are about it: rules, patterns of arguments and of shell commands. Pure."""
