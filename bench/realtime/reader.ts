// Minimal reader of the write-ahead log: a slot like svc's, whose changes are discarded. Started by inserts.ts with a
// connection string; prints `ready` once it receives commits.
import pg from 'pg';

const [databaseUrl = ''] = process.argv.slice(2);
const config = { connectionString: databaseUrl, replication: 'database' };
const client = new pg.Client(config);
await client.connect();
await client.query('CREATE_REPLICATION_SLOT bench TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT');
// `pg` does not support CopyBoth. Nothing is acknowledged, which the server tolerates for a minute.
const { stream } = (client as unknown as { connection: { stream: NodeJS.ReadWriteStream } }).connection;
stream.removeAllListeners('data');
stream.on('data', () => {});
const statement = `START_REPLICATION SLOT bench LOGICAL 0/0 (proto_version '1', publication_names 'svc_realtime')\0`;
const head = Buffer.alloc(5);
head.write('Q');
head.writeUInt32BE(statement.length + 4, 1);
stream.write(Buffer.concat([head, Buffer.from(statement)]));
process.send?.('ready');
