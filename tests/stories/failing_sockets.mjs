// Every way in which a socket of the package `ws` fails that the client has made. Each is an `error` event, which ends
// the process if nobody hears it.
import { createServer } from "node:net";
import WebSocket, { WebSocketServer } from "ws";
import { Rollcall } from "./rollcall.mjs";

/** Asks for no admission, and goes no other way, so that the socket itself is what fails. */
const fetch = async () => new Response(null, { status: 204 });

const listening = (server) => new Promise((resolve) => server.on("listening", () => resolve(server.address().port)));

const clientOf = (port) => {
  const url = `http://127.0.0.1:${port}`;
  return new Rollcall({ url, userId: "u1", way: "socket", WebSocket, fetch });
};

/** The next status in this state. */
const comes = (client, state) => new Promise((resolve) => {
  const stop = client.on("state", (status) => {
    if (status.state !== state) return;
    stop();
    resolve(status);
  });
});

/** A server that does this to each connection. */
async function serverThat(treats) {
  const server = createServer((connection) => {
    connection.on("error", () => {});
    treats(connection);
  });
  server.listen(0, "127.0.0.1");
  return { server, port: await listening(server) };
}

async function fails(what, port) {
  const client = clientOf(port);
  client.connect();
  const { reason } = await comes(client, "waiting");
  console.error(`${what}: ${reason}`);
  client.close();
}

const { server: nobody, port: closed } = await serverThat(() => {});
await new Promise((resolve) => nobody.close(resolve));
await fails("refused", closed);

const rude = await serverThat((connection) => connection.destroy());
await fails("closed at once", rude.port);
rude.server.close();

const wrong = await serverThat((connection) => connection.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"));
await fails("not upgraded", wrong.port);
wrong.server.close();

// A client that is closed while its socket opens, and one that is closed at once.
let silent;
const asked = new Promise((resolve) => { silent = serverThat(resolve); });
const { server, port } = await silent;
const early = clientOf(port);
early.connect();
const connection = await asked;
early.close();
const never = clientOf(port);
never.connect();
never.close();
await new Promise((resolve) => connection.on("close", resolve));
server.close();
console.error("closed while it opened");

// A socket that was open: it ends in the middle of a frame, with a frame that is none, and with a text that is no JSON.
const gateway = new WebSocketServer({ port: 0, host: "127.0.0.1" });
const gatewayPort = await listening(gateway);
for (const bytes of ["\x81\x7e", "\xff\xff\xff\xff"]) {
  const client = clientOf(gatewayPort);
  gateway.once("connection", (socket) => {
    socket.on("error", () => {});
    socket.send("Request served by somebody else");
    socket._socket.write(bytes, "latin1");
    socket._socket.end();
  });
  client.connect();
  console.error(`open, and broken: ${(await comes(client, "waiting")).reason}`);
  client.close();
}
gateway.close();

// Whatever fails late has failed by then.
await new Promise((resolve) => setTimeout(resolve, 200));
console.error("alive after all of them");
