// Many clients in one live, whose tokens end soon. Prints what happens to them, and closes them when its input ends.
import { createHmac } from "node:crypto";
import { Rollcall } from "rollcall-presence";

const [, , url, live, count, lifetime, secret] = process.argv;

const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

function token(sub) {
  const exp = Math.floor(Date.now() / 1_000) + Number(lifetime);
  const body = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub, exp })}`;
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}

const clients = Array.from({ length: Number(count) }, (_, n) => {
  const client = new Rollcall({ url, token: () => token(`${live}-u${n}`) });
  for (const type of ["joined", "refreshed"]) client.on(type, () => console.log(type));
  client.on("state", ({ state, reason }) => {
    if (state === "waiting" || state === "closed") console.log(state);
    if (state === "closed" && reason !== "requested") console.error("closed:", reason);
  });
  return client;
});
await Promise.all(clients.map((client) => client.join(live)));

process.stdin.resume().on("end", () => clients.forEach((client) => client.close()));
