// Sends signed transfers to a node, as a wallet does, and waits until they are in blocks.
//
//   node transfers.mjs --port PORT [--accounts N] [--blocks N] [--least N] [--most N] [--manual]
//
// Each block gets --least transfers, every fiftieth --most. The node makes a block when transactions come, or is
// told to with --manual. No transaction may wait in its pool. The accounts are those of `povmeter-node`: the first half sends, the others receive.
// Ends with code 1 if a transfer fails, and prints the last block.
import { ApiPromise, WsProvider } from '@polkadot/api';
import { Keyring } from '@polkadot/keyring';
import { blake2AsU8a, cryptoWaitReady } from '@polkadot/util-crypto';
import { parseArgs } from 'node:util';

const EVERY = 50;

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '9944' },
    accounts: { type: 'string', default: '1000' },
    blocks: { type: 'string', default: '10' },
    least: { type: 'string', default: '100' },
    most: { type: 'string', default: '500' },
    manual: { type: 'boolean', default: false },
  },
});

function whole(name, least) {
  const number = Number(values[name]);
  if (!Number.isSafeInteger(number) || number < least) {
    throw new Error(`expected a whole number of at least ${least} for --${name}, found ${values[name]}`);
  }
  return number;
}

// The key of an account follows from its index.
function keyOf(keyring, index) {
  const seed = new Uint8Array([...new TextEncoder().encode('povmeter-node account'), 0, 0, 0, 0]);
  new DataView(seed.buffer).setUint32(seed.length - 4, index, true);
  return keyring.addFromSeed(blake2AsU8a(seed), undefined, 'sr25519');
}

// Signs `count` transfers of the accounts in turns, and submits them all at once.
async function send(api, senders, receivers, count, state) {
  const submitted = [];
  for (let index = 0; index < count; index += 1) {
    const sender = senders[state.drawn % senders.length];
    const receiver = receivers[(state.drawn * 7) % receivers.length];
    state.drawn += 1;
    const transfer = api.tx.balances.transferKeepAlive(receiver.address, 1_000_000_000n + BigInt(state.drawn));
    const signed = transfer.sign(sender.key, {
      blockHash: api.genesisHash,
      era: 0,
      genesisHash: api.genesisHash,
      nonce: sender.nonce,
      runtimeVersion: api.runtimeVersion,
    });
    sender.nonce += 1;
    submitted.push(api.rpc.author.submitExtrinsic(signed));
  }
  await Promise.all(submitted);
}

// Waits until the senders' numbers are in the state.
async function included(api, senders, manual) {
  for (let tries = 0; tries < 600; tries += 1) {
    if (manual) {
      await api.rpc.engine.createBlock(true, false);
    }
    // Senders go in turns: the last one of them is in the last block.
    const accounts = await api.query.system.account.multi(senders.map((sender) => sender.key.address));
    if (accounts.every((account, index) => account.nonce.toNumber() === senders[index].nonce)) {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error('expected all transfers in blocks, found some that are not');
}

async function main() {
  const blocks = whole('blocks', 1);
  const least = whole('least', 1);
  const most = whole('most', least);
  const accounts = whole('accounts', 4);
  await cryptoWaitReady();
  const provider = new WsProvider(`ws://127.0.0.1:${whole('port', 1)}`);
  const api = await ApiPromise.create({ provider, noInitWarn: true });
  const keyring = new Keyring();
  const half = Math.floor(accounts / 2);
  const keys = Array.from({ length: accounts }, (_, index) => keyOf(keyring, index));
  const receivers = keys.slice(half);
  // Account 0 has the sudo key.
  const senders = [];
  for (const key of keys.slice(1, half)) {
    const account = await api.query.system.account(key.address);
    senders.push({ key, nonce: account.nonce.toNumber() });
  }
  const state = { drawn: 0 };
  let sent = 0;
  const started = performance.now();
  for (let block = 1; block <= blocks; block += 1) {
    const count = block % EVERY === 0 ? most : least;
    await send(api, senders, receivers, count, state);
    await included(api, senders, values.manual);
    sent += count;
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const header = await api.rpc.chain.getHeader();
  const failed = await failures(api, header.number.toNumber(), blocks);
  console.log(`${sent} transfers in ${blocks} rounds, in ${seconds} s; best block ${header.number} ${header.hash}`);
  await api.disconnect();
  if (failed > 0) {
    throw new Error(`expected no failed transfer in the last blocks, found ${failed}`);
  }
}

// How many extrinsics of the last blocks failed.
async function failures(api, best, blocks) {
  let failed = 0;
  for (let number = best; number > Math.max(0, best - Math.min(blocks, 20)); number -= 1) {
    const hash = await api.rpc.chain.getBlockHash(number);
    const events = await api.query.system.events.at(hash);
    failed += events.filter(({ event }) => event.section === 'system' && event.method === 'ExtrinsicFailed').length;
  }
  return failed;
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(`error: ${error.message}`);
    process.exit(1);
  },
);
