// An OpenID Connect provider for tests: node provider.mjs MODULE PORT SETTINGS
// Its own pages ask for a name, and take any password.
const [module, port, settings] = process.argv.slice(2);
const { default: Provider } = await import(module);
const { users, clients } = JSON.parse(settings);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients,
  pkce: { required: () => true },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["only for tests"] },
  findAccount: async (_, id) => ({ accountId: id, claims: async () => ({ sub: id, ...users[id] }) }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
