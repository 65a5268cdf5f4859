"""Decide over plain HTTP what agents ask. A program in any language can do the same.

pip install . httpx
openssl rand -hex 32 > token
supervisor serve approve_over_http.py --token-file token
curl -X POST http://127.0.0.1:8787/api/sessions -H "Authorization: Bearer $(cat token)" \
    -H 'Content-Type: application/json' -d '{"agent": "publish", "input": "Ten years of us"}'
python approve_over_http.py http://127.0.0.1:8787 token
"""

import sys
from pathlib import Path

import httpx

from supervisor import Context, agent, tool


@tool
async def post(title: str) -> str:
    return f"posted {title}"


@agent
async def publish(ctx: Context, title: str) -> str:
    return (await ctx.call(post, title)).content


def main(url: str, token_file: str) -> None:
    headers = {"Authorization": f"Bearer {Path(token_file).read_text().strip()}"}
    with httpx.Client(base_url=url, headers=headers) as http:
        for approval in http.get("/api/approvals").raise_for_status().json()["items"]:
            print(approval["agent"], "wants", approval["tool"], approval["arguments"])
            decision = {"decision": "deny", "reason": "not today"}
            if input("Approve it? [y/N] ") == "y":
                decision = {"decision": "approve"}
            reply = http.post(f"/api/approvals/{approval['id']}/decision", json=decision)
            print(reply.status_code, reply.text)  # 409: a person or a program has decided otherwise before


if __name__ == "__main__":
    main(*sys.argv[1:])
