import express from "express";
import { rateLimit } from "sluice/express";

const app = express();
app.use(rateLimit({ policy: "3/m" }));
app.get("/", (_request, response) => {
  response.send("hello");
});
const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
