//! Compares the recorded nodes of blocks whose roots count in key order with those of the peer.

use super::{
    case::{Case, ParentNodes},
    mismatch::Mismatch,
    peer_side::PeerSide,
};
use povmeter::{Accounting, Block, NodeSource, SeenNodes, TrieId};
use povmeter_vectors::{ask, Op};
use std::collections::BTreeSet;

type Nodes = BTreeSet<Vec<u8>>;

/// How many roots were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StockNodes {
    /// Roots after which both sides had recorded the same nodes: those of states, also at the ends of blocks, and those
    /// of child tries.
    pub roots: u64,
    /// Those of them that are roots of child tries that the block had changed.
    pub of_changed_children: u64,
    /// Blocks for whose last root the rule for sizes counts more nodes.
    pub spared: u64,
}

/// Runs `case` on a block in accounting `A` whose roots count in key order, and on the peer. After each root, and at
/// the end, both must have recorded the same nodes. Asks for sizes only if `A` leaves no trace of them.
///
/// Ends without a mismatch at the first root that the peer may get wrong, because it deletes an absent key.
///
/// # Errors
/// The first [`Mismatch`].
pub fn compare_stock_nodes<A: Accounting>(case: &Case) -> Result<StockNodes, Mismatch> {
    let nodes = ParentNodes::new(&case.parent);
    let mut peer = PeerSide::new(nodes.parent(), case.version);
    let mut block = Block::with_accounting(&nodes, nodes.root(), A::default());
    block.count_roots_in_key_order();
    let mut compared = StockNodes::default();
    let root_at_end = [Op::Root];
    for (at, op) in case.ops.iter().chain(&root_at_end).enumerate() {
        let failed = |source| Mismatch::Block {
            at,
            op: op.to_string(),
            source,
        };
        match op {
            Op::Boundary if A::PROVEN => continue,
            Op::Boundary => {
                block.proof_size().map_err(failed)?;
                continue;
            }
            Op::Root | Op::ChildRoot { .. }
                if peer.net_changes().leave_out_absent(&case.parent) =>
            {
                return Ok(compared)
            }
            _ => {}
        }
        peer.ask(op)?;
        ask(&mut block, op, case.our_version()).map_err(failed)?;
        let is_written = match op {
            Op::ChildRoot { child } => block.overlay().is_touched(TrieId::Child(&child.0)),
            _ => false,
        };
        if matches!(op, Op::Root | Op::ChildRoot { .. }) {
            let expected = peer.read_proof().into_nodes();
            let found = recorded(&block);
            if expected != found {
                return Err(Mismatch::Recorded {
                    at,
                    lacking: expected.difference(&found).count(),
                    more: found.difference(&expected).count(),
                });
            }
            compared.roots += 1;
            compared.of_changed_children += u64::from(is_written);
        }
    }
    let by_rule = |source| Mismatch::Block {
        at: case.ops.len(),
        op: Op::Boundary.to_string(),
        source,
    };
    let counted = recorded(&block).len();
    block.proof_size().map_err(by_rule)?;
    let more = block.recorded_proof().nodes().len() > counted;
    compared.spared += u64::from(more);
    Ok(compared)
}

/// The recorded nodes, without those that only an estimate touched.
fn recorded<S: NodeSource, A: Accounting>(block: &Block<S, A>) -> Nodes {
    let mut nodes = Nodes::new();
    block.for_each_recorded(&mut SeenNodes::default(), |_, node| {
        nodes.insert(node.to_vec());
    });
    nodes
}
