// The least that can be done with the write-ahead log: a slot like svc's, whose changes are thrown away as they come.
// Started by inserts.ts with a connection string; says `ready` once it is told of what commits.
import pg from 'pg';

const [databaseUrl = ''] = process.argv.slice(2);
const config = { connectionString: databaseUrl, replication: 'database' };
const client = new pg.Client(config);
await client.connect();
await client.query('CREATE_REPLICATION_SLOT bench TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT');
// `pg` does not know copying in both directions. Nothing is acknowledged, which a server lets pass for a minute.
const { stream } = (client as unknown as { connection: { stream: NodeJS.ReadWriteStream } }).connection;
stream.removeAllListeners('data');
stream.on('data', () => {});
const statement = `START_REPLICATION SLOT bench LOGICAL 0/0 (proto_version '1', publication_names 'svc_realtime')\0`;
const head = Buffer.alloc(5);
head.write('Q');
head.writeUInt32BE(statement.length + 4, 1);
stream.write(Buffer.concat([head, Buffer.from(statement)]));
process.send?.('ready');
